package mysqlnode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// What a URL says is what the driver is told; what cannot be is refused, without the
// password.
func TestURL(t *testing.T) {
	for url, name := range map[string]string{
		"mysql://u:p@127.0.0.1/locks":                "127.0.0.1:3306/locks",
		"mysql://u:p%40%2F@[::1]:33/locks":           "[::1]:33/locks",
		"mysql://u:p@db.example/locks":               "db.example:3306/locks",
		"mariadb://u@db.example:3307/l?tls=off":      "db.example:3307/l",
		"mysql://u:p@localhost/locks?name=a":         "a",
		"mysql://u:p@localhost/locks?tls=on":         "localhost:3306/locks",
		"mysql://u:p@localhost/locks?servername=x.y": "localhost:3306/locks",
	} {
		s, err := parseURL(url)
		if err != nil || s.name != name {
			t.Errorf("%s: %+v, %v", url, s, err)
			continue
		}
		c := s.config
		if c.User != "u" || c.MultiStatements || c.InterpolateParams || c.ParseTime || c.ClientFoundRows || c.RejectReadOnly || c.AllowAllFiles || c.AllowCleartextPasswords || c.AllowFallbackToPlaintext || c.DBName == "" {
			t.Errorf("%s: %+v", url, c)
		}
		on := strings.Contains(url, "db.example/") || strings.Contains(url, "tls=on") || strings.Contains(url, "servername")
		if (c.TLS != nil) != on || on && (c.TLS.InsecureSkipVerify || c.TLS.ServerName == "") {
			t.Errorf("%s: TLS %+v", url, c.TLS)
		}
	}
	for _, url := range []string{
		"", "mysql:", "mysql://", "mysql://u:secret@/locks", "mysql://u:secret@host", "mysql://u:secret@host/", "mysql://u:secret@host/a/b", "mysql://host/locks",
		"postgres://u:secret@host/locks", "mysql://u:secret@host:0/locks", "mysql://u:secret@host:port/locks", "mysql://u:secret@a,b/locks", "mysql://u:secret@host/locks?parseTime=true",
		"mysql://u:secret@host/locks?tls=skip-verify", "mysql://u:secret@host/locks?tls=off&ca=/x", "mysql://u:secret@host/locks?name=a&name=b", "mysql://u:secret@host/locks?name=",
		"mysql://u:secret@host/locks#x", "mysql://u:se/cret@host/locks", "mysql://u:secret@host/locks?passwordfile=/none", "mysql://u@host/locks?passwordfile=/none", "u:secret@tcp(host)/locks",
		"mysql://u:secret@host/locks?cert=/x", "mysql://u:secret@host/locks?ca=/none", "mysql://u:secret@host/locks?name=a%20b", "mysql://u:secret@host/locks?name=*",
	} {
		if s, err := parseURL(url); !errors.Is(err, node.ErrInvalid) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "cret@") {
			t.Errorf("%s: %+v, %v", url, s, err)
		}
	}
}

// Each verdict, one second on either side of what it depends on.
func TestVerdicts(t *testing.T) {
	const maxTTL = 10 * time.Second
	quarantine := maxTTL + rule.Drift(maxTTL)
	at := func(s int64) time.Duration { return time.Duration(s) * time.Second }
	used := meta{Server: "a", Started: 100, Milliseconds: maxTTL.Milliseconds(), Memory: "m"}
	volatile, noticed, fresh := used, used, meta{made: at(500)}
	volatile.Volatile = "flush"
	noticed.Noticed, noticed.Since = "b", at(600).Microseconds()
	seen := volatile
	seen.Noticed, seen.Since = "a", at(700).Microseconds()
	same, restarted, other := session{identity: "a", started: 100}, session{identity: "a", started: 101}, session{identity: "b", started: 50}
	for name, c := range map[string]struct {
		m    meta
		s    session
		now  time.Duration
		want verdict
	}{
		"the same run":               {used, same, at(100), vote},
		"volatile, the same run":     {volatile, same, at(100), vote},
		"started again":              {used, restarted, at(101), goOn},
		"started earlier":            {used, session{identity: "a", started: 99}, at(101), goOn},
		"volatile, just started":     {volatile, restarted, at(101), wait},
		"volatile, late":             {volatile, restarted, at(102) + quarantine - 1, wait},
		"volatile, over":             {volatile, restarted, at(102) + quarantine, rebuild},
		"another":                    {used, other, at(10000), observe},
		"another, noticed":           {noticed, other, at(600), wait},
		"another, over":              {noticed, other, at(600) + quarantine, rebuild},
		"another, its clock is back": {noticed, other, at(10), observe},
		"volatile, clock back":       {volatile, session{identity: "a", started: 5000}, at(700), observe},
		"volatile, clock back, seen": {seen, session{identity: "a", started: 5000}, at(700), wait},
		"volatile, clock back, over": {seen, session{identity: "a", started: 5000}, at(700) + quarantine, rebuild},
		"new, clock back":            {fresh, same, at(10), observe},
		"a third":                    {noticed, session{identity: "c"}, at(10000), observe},
		"new":                        {fresh, same, at(500), wait},
		"new, over":                  {fresh, same, at(500) + quarantine, rebuild},
		"new, volatile, started":     {fresh, session{identity: "a", started: 1000, volatile: "x"}, at(1000), wait},
		"new, volatile, over":        {fresh, session{identity: "a", started: 1000, volatile: "x"}, at(1001) + quarantine, rebuild},
		"galera":                     {used, session{identity: "a", galera: true, started: 9}, at(1000), vote},
		"galera, volatile":           {used, session{identity: "a", galera: true, started: 990, volatile: "x"}, at(1000), wait},
		"galera, volatile, up":       {used, session{identity: "a", galera: true, started: 9, volatile: "x"}, at(1000), vote},
	} {
		v, left, why := c.m.decide(&c.s, c.now, maxTTL)
		if v != c.want || (left > 0) != (v == wait) || left > quarantine || v == wait && why == "" {
			t.Errorf("%s: %v, %v, %q; want %v", name, v, left, why, c.want)
		}
	}
	// Whoever reads registers knows no MaxTTL: what is recorded counts.
	if v, _, _ := volatile.decide(&restarted, at(101), 0); v != wait {
		t.Errorf("without a group: %v", v)
	}
}

func TestNotDurable(t *testing.T) {
	durable := map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF", "sync_binlog": "0", "debug_no_sync": "OFF", "innodb_flush_method": "O_DIRECT"}
	if why := notDurable(durable); why != "" {
		t.Error(why)
	}
	for _, change := range []map[string]string{
		{"innodb_flush_log_at_trx_commit": "2"}, {"innodb_flush_log_at_trx_commit": "0"}, {"innodb_flush_log_at_trx_commit": ""},
		{"log_bin": "ON"}, {"log_bin": "ON", "sync_binlog": "100"}, {"debug_no_sync": "ON"}, {"innodb_flush_method": "nosync"},
	} {
		set := maps.Clone(durable)
		maps.Copy(set, change)
		if notDurable(set) == "" {
			t.Errorf("%v is taken for durable", change)
		}
	}
	durable["log_bin"], durable["sync_binlog"] = "ON", "1"
	if why := notDurable(durable); why != "" {
		t.Error(why)
	}
}

// A row of any bytes is read as what was written, or refused.
func FuzzRow(f *testing.F) {
	leases := map[string]rule.Lease{"a": {Holder: "h", Expires: time.Hour, Origin: 7, Token: 9}, "\x00": {Holder: "\xff"}}
	queues := map[string]rule.QueueRecord{"q": {Expires: time.Hour, Waiters: rule.Waiters{{Waiter: "w", Stamp: 5}, {Waiter: "x", Stamp: 1 << 53}}}}
	f.Add(encodeLeases(leases), encodeQueues(queues))
	f.Add([]byte{}, []byte{1, 'a', 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, l, q []byte) {
		if leases, err := decodeLeases(l); err == nil {
			if again, err := decodeLeases(encodeLeases(leases)); err != nil || !reflect.DeepEqual(leases, again) {
				t.Errorf("%v, %v, %v", leases, again, err)
			}
		} else if !errors.Is(err, node.ErrMisconfigured) {
			t.Error(err)
		}
		if queues, err := decodeQueues(q); err == nil {
			if again, err := decodeQueues(encodeQueues(queues)); err != nil || !reflect.DeepEqual(queues, again) {
				t.Errorf("%v, %v, %v", queues, again, err)
			}
		}
		decodeNotices(q)
		s := stripe{number: node.Stripe("a"), leases: l, waiters: q, notices: q}
		if after, a, err := s.serve(node.Request{Op: node.Acquire, Name: "a", Holder: "h", TTL: time.Second}, time.Hour, func(string) bool { return true }); err == nil && a.Status == node.Granted {
			if l, err := decodeLeases(after.leases); err != nil || l["a"].Holder != "h" || after.register != 1 {
				t.Errorf("%v, %v, %v", after, l, err)
			}
		}
	})
}

// greeting is how a server begins.
var greeting = append([]byte("\x0a10.11.0-MariaDB\x00"+"\x01\x00\x00\x00"+"12345678\x00"+"\xff\xf7\x21\x02\x00\xff\x81\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"+"123456789012\x00"), "mysql_native_password\x00"...)

func packet(number byte, body []byte) []byte {
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	head[3] = number
	return append(head, body...)
}

// A server that sends nonsense costs its clients an error: no panic, and no memory that it
// asks for. The driver alone panics, or ends the process, at half of these.
func TestHostileServer(t *testing.T) {
	// What the server says first, and after each time that it has heard something.
	hello, ok := packet(0, greeting), packet(2, []byte{0, 0, 0, 2, 0, 0, 0})
	first := func(says ...byte) [][]byte { return [][]byte{says} }
	second := func(says ...byte) [][]byte { return [][]byte{hello, says} }
	reply := func(first []byte, more ...[]byte) [][]byte {
		return [][]byte{hello, ok, append(packet(1, first), bytes.Join(more, nil)...)}
	}
	for name, says := range map[string][][]byte{
		"nothing":               {},
		"an empty packet":       first(packet(0, nil)...),
		"a short greeting":      first(packet(0, []byte{10})...),
		"no end of the version": first(packet(0, bytes.Repeat([]byte{10}, 300))...),
		"a short error":         first(packet(0, []byte{0xff, 1})...),
		"a short OK":            second(packet(2, []byte{0})...),
		"a short switch":        second(packet(2, []byte{0xfe})...),
		"endless":               second(0xff, 0xff, 0xff, 2),
		"2^40 columns":          reply([]byte{0xfe, 0, 0, 0, 0, 0, 1, 0, 0}),
		"2^63 columns":          reply([]byte{0xfe, 0, 0, 0, 0, 0, 0, 0, 0x80}),
		"65535 columns":         reply([]byte{0xfc, 0xff, 0xff}),
		"250 columns":           reply([]byte{250}),
		"a file of the client":  reply([]byte("\xfb/etc/passwd")),
		"more, and 2^40":        reply([]byte{0, 0, 0, 8, 0, 0, 0}, packet(2, []byte{0xfe, 0, 0, 0, 0, 0, 1, 0, 0})),
		"an OK that is cut":     reply([]byte{0, 0xfe, 1}),
		"an error that is cut":  reply([]byte{0xff, 1, 2}),
		"columns that are cut":  reply([]byte{1}, packet(2, []byte{3, 'd'})),
		"past the end":          reply([]byte{1}, packet(2, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})),
		"rows out of order":     reply([]byte{1}, packet(77, []byte{1, 2, 3})),
		"a row, no columns":     reply([]byte{1}, packet(2, []byte{0xfe, 0, 0, 2, 0})),
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						for i, part := range says {
							if i > 0 {
								if _, err := c.Read(make([]byte, 4096)); err != nil {
									return
								}
							}
							c.Write(part)
						}
						if name == "endless" {
							block := make([]byte, 1<<20)
							for range 64 {
								if _, err := c.Write(block); err != nil {
									return
								}
							}
							t.Error("the client has taken 64 MiB")
						}
						c.(*net.TCPConn).CloseWrite()
						io.Copy(io.Discard, c)
					}()
				}
			}()
			n, err := Open("mysql://u:p@" + listener.Addr().String() + "/locks")
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			a, err := n.Do(ctx, node.Request{Op: node.Acquire, Name: "a", Holder: "h", TTL: time.Second})
			if err == nil || !strings.Contains(err.Error(), n.String()) {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// A turn is one operation's at a time, and whoever gives up waiting has none.
func TestTurns(t *testing.T) {
	var all turns
	leave, err := all.take(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := all.take(t.Context(), 8); err != nil {
		t.Error(err)
	} else {
		other()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := all.take(ctx, 7); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	leave()
	if leave, err = all.take(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	leave()
	if len(all.busy) != 0 {
		t.Error(all.busy)
	}
}

// How often a listener asks: often for who is next, seldom for who is not, or has waited
// long, and never more than a statement a second for a thousand.
func TestPauses(t *testing.T) {
	l := line{changed: make(chan struct{}, 1)}
	if got := l.pause(); got != idlePause {
		t.Errorf("with nobody: %v", got)
	}
	for _, c := range []struct {
		ahead    int
		waited   time.Duration
		min, max time.Duration
	}{
		{0, 0, shortestPause, shortestPause}, {0, time.Second, 100 * time.Millisecond, 200 * time.Millisecond}, {0, time.Minute, longestPause, longestPause},
		{1, time.Minute, longestPause, longestPause}, {2, time.Minute, idlePause, idlePause}, {1000, 0, 2 * time.Second, idlePause}, {100, 0, 200 * time.Millisecond, 200 * time.Millisecond},
	} {
		l.waiters = nil
		l.waits("w", 7, c.ahead)
		l.waiters["w"].moved = time.Now().Add(-c.waited)
		if got := l.pause(); got < c.min || got > c.max {
			t.Errorf("%d ahead, for %v: %v", c.ahead, c.waited, got)
		}
	}
	l.waits("w", 7, 3)
	l.moved(8)
	l.moved(7)
	if l.waiters["w"].ahead != 2 || l.stripes() != "7" {
		t.Errorf("%+v, %q", l.waiters["w"], l.stripes())
	}
	l.waiters["w"].asked = time.Now().Add(-time.Minute)
	if l.pause(); len(l.waiters) != 0 {
		t.Error("one that asks no more is still waited for")
	}
	l.waits("w", 7, 3)
	l.leaves("w")
	if l.stripes() != "" {
		t.Error(l.stripes())
	}
}
