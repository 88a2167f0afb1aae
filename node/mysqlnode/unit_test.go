package mysqlnode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
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
		if c.User != "u" || c.MultiStatements || c.InterpolateParams || c.ParseTime || c.ClientFoundRows ||
			c.RejectReadOnly || c.AllowAllFiles || c.AllowCleartextPasswords || c.AllowFallbackToPlaintext || c.DBName == "" {
			t.Errorf("%s: %+v", url, c)
		}
		on := strings.Contains(url, "db.example/") || strings.Contains(url, "tls=on") || strings.Contains(url, "servername")
		if (c.TLS != nil) != on || on && (c.TLS.InsecureSkipVerify || c.TLS.ServerName == "") {
			t.Errorf("%s: TLS %+v", url, c.TLS)
		}
	}
	for _, url := range []string{ // what package engine refuses is in its tests
		"mysql://u:secret@host", "mysql://u:secret@host/", "mysql://u:secret@host/a/b", "mysql://host/locks",
		"postgres://u:secret@host/locks", "mysql://u:secret@a,b/locks", "mysql://u:secret@host/locks?parseTime=true",
		"mysql://u:secret@host/locks?tls=off&ca=/x", "mysql://u:secret@host/locks?cert=/x",
		"mysql://u:secret@host/locks?ca=/none", "u:secret@tcp(host)/locks",
	} {
		if s, err := parseURL(url); !errors.Is(err, node.ErrInvalid) || strings.Contains(err.Error(), "secret") ||
			strings.Contains(err.Error(), "cret@") {
			t.Errorf("%s: %+v, %v", url, s, err)
		}
	}
}

// What each state of the row comes to, one second or one nanosecond on either side of what it
// depends on.
func TestVerdicts(t *testing.T) {
	const maxTTL = 10 * time.Second
	quarantine := admit.Quarantine(maxTTL)
	at := func(s int64) time.Duration { return time.Duration(s) * time.Second }
	used := meta{version: 7, Server: "a", Tables: "t", Started: 100, Milliseconds: maxTTL.Milliseconds(), Memory: "m"}
	volatile, noticed, fresh := used, used, meta{out: at(500)}
	volatile.Volatile = "flush"
	noticed.Server, noticed.Noticed, noticed.Started, noticed.out = "", "b", 50, at(600)
	same, restarted, other := session{identity: "a", tables: "t", started: 100}, session{identity: "a", tables: "t",
		started: 101}, session{identity: "b", tables: "t", started: 50}
	for name, c := range map[string]struct {
		m    meta
		s    session
		now  time.Duration
		want admit.Do
	}{
		"the same run":                {used, same, at(100), admit.Vote},
		"volatile, the same run":      {volatile, same, at(100), admit.Vote},
		"other tables":                {used, session{identity: "a", tables: "u", started: 100}, at(100), admit.Note},
		"other tables, started again": {used, session{identity: "a", tables: "u", started: 101}, at(101), admit.Note},
		"started again":               {used, restarted, at(101), admit.Admit},
		"started again, volatile now": {used, session{identity: "a", tables: "t", started: 101, volatile: "flush"}, at(101),
			admit.Note},
		"started earlier":            {used, session{identity: "a", tables: "t", started: 99}, at(101), admit.Admit},
		"volatile, started again":    {volatile, restarted, at(10000), admit.Note},
		"another":                    {used, other, at(10000), admit.Note},
		"noticed":                    {noticed, other, at(600), admit.Wait},
		"noticed, late":              {noticed, other, at(600) + quarantine - 1, admit.Wait},
		"noticed, over":              {noticed, other, at(600) + quarantine, admit.Ask},
		"noticed, its clock is back": {noticed, other, at(10), admit.Note},
		"noticed, started again":     {noticed, session{identity: "b", tables: "t", started: 51}, at(10000), admit.Note},
		"noticed, other tables":      {noticed, session{identity: "b", tables: "u", started: 50}, at(10000), admit.Note},
		"noticed, a third":           {noticed, session{identity: "c", tables: "t", started: 50}, at(10000), admit.Note},
		"noticed, the one before":    {noticed, same, at(10000), admit.Note},
		"new":                        {fresh, same, at(500), admit.Wait},
		"new, over":                  {fresh, same, at(500) + quarantine, admit.Ask},
		"new, clock back":            {fresh, same, at(10), admit.Note},
		"new, started":               {fresh, session{identity: "a", started: 1000}, at(1000), admit.Wait},
		"new, started, late":         {fresh, session{identity: "a", started: 1000}, at(1001) + quarantine - 1, admit.Wait},
		"new, started, over":         {fresh, session{identity: "a", started: 1000}, at(1001) + quarantine, admit.Ask},
		"new, loaded":                {fresh, session{identity: "a", started: 10, made: at(1000)}, at(1000), admit.Wait},
		"new, loaded, over": {fresh, session{identity: "a", started: 10, made: at(1000)}, at(1000) + quarantine,
			admit.Ask},
		"galera, any member": {used, session{identity: "a", tables: "t", galera: true, started: 9}, at(1000),
			admit.Vote},
		"galera, volatile, started": {used, session{identity: "a", tables: "t", galera: true, started: 990, volatile: "x"},
			at(991) + quarantine - 1, admit.Wait},
		"galera, volatile, up": {used, session{identity: "a", tables: "t", galera: true, started: 990, volatile: "x"},
			at(991) + quarantine, admit.Vote},
		"galera, noticed, any member": {noticed, session{identity: "b", tables: "t", galera: true, started: 9}, at(600),
			admit.Wait},
		"by two, a program of before": {meta{version: 7, Server: "a", Noticed: "b", Tables: "t", Memory: "m"}, same, at(100),
			admit.Note},
		"no tables, as it was written": {meta{version: 7, Server: "a", Started: 100, Memory: "m"}, same, at(100), admit.Note},
		"no memory": {meta{version: 7, Server: "a", Tables: "t", Started: 100}, same, at(100),
			admit.Refuse},
		"a longest lease below zero": {meta{version: 7, Milliseconds: -5}, same, at(100), admit.Refuse},
	} {
		f := c.m.facts(&c.s, c.now)
		v := admit.Decide(f, admit.Client{Terms: admit.Terms{MaxTTL: maxTTL}, Nodes: 1}, nil, false)
		if v.Do != c.want || v.Do == admit.Refuse && !errors.Is(v.Err, node.ErrMisconfigured) ||
			v.Do == admit.Wait && (v.Absence.Wait <= 0 || v.Absence.Wait > quarantine || v.Absence.Cause == node.Present) {
			t.Errorf("%s: %+v; want %v", name, v, c.want)
		}
	}
}

// Since when a server is out: from its start if it is the one that was admitted, and from now
// otherwise.
func TestNoted(t *testing.T) {
	at := func(s int64) time.Duration { return time.Duration(s) * time.Second }
	used := meta{version: 7, Server: "a", Tables: "t", Started: 100, Milliseconds: 10, Members: "n", Memory: "m",
		Volatile: "flush", Empty: []string{"e"}}
	seen, durable := meta{version: 7, Noticed: "a", Tables: "t", Started: 100, Memory: "m"}, used
	durable.Volatile = ""
	for name, c := range map[string]struct {
		m    meta
		s    session
		now  time.Duration
		want string
	}{
		"started again":              {used, session{identity: "a", tables: "t", started: 200}, at(300), "201000000"},
		"noticed, and started again": {seen, session{identity: "a", tables: "t", started: 200}, at(300), "201000000"},
		"durable, and started again": {durable, session{identity: "a", tables: "t", started: 200, volatile: "flush"}, at(300),
			clockBegan},
		"just started":           {used, session{identity: "a", tables: "t", started: 200}, at(200), clockBegan},
		"its clock was set back": {used, session{identity: "a", tables: "t", started: 200}, at(150), clockBegan},
		"another":                {used, session{identity: "b", tables: "t", started: 200}, at(300), clockBegan},
		"other tables":           {used, session{identity: "a", tables: "u", started: 200}, at(300), clockBegan},
		"a cluster": {used, session{identity: "a", tables: "t", started: 200, galera: true}, at(300),
			clockBegan},
	} {
		after, out := c.m.noted(&c.s, node.Replaced, c.now)
		if out != c.want {
			t.Errorf("%s: since %s; want %s", name, out, c.want)
		}
		if after.Server != "" || after.Noticed != c.s.identity || after.Memory == c.m.Memory || after.Memory == "" ||
			after.terms() != c.m.terms() || after.Empty != nil {
			t.Errorf("%s: %+v", name, after)
		}
	}
}

func TestNotDurable(t *testing.T) {
	durable := map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF", "sync_binlog": "0",
		"debug_no_sync": "OFF", "innodb_flush_method": "O_DIRECT"}
	if why := notDurable(durable); why != "" {
		t.Error(why)
	}
	for _, change := range []map[string]string{
		{"innodb_flush_log_at_trx_commit": "2"}, {"innodb_flush_log_at_trx_commit": "0"},
		{"innodb_flush_log_at_trx_commit": ""},
		{"log_bin": "ON"}, {"log_bin": "ON", "sync_binlog": "100"}, {"debug_no_sync": "ON"},
		{"innodb_flush_method": "nosync"},
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

// greeting is how a server begins.
var greeting = append([]byte("\x0a10.11.0-MariaDB\x00"+"\x01\x00\x00\x00"+"12345678\x00"+
	"\xff\xf7\x21\x02\x00\xff\x81\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"+"123456789012\x00"),
	"mysql_native_password\x00"...)

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

// A listener judges by the others' silence when it has itself said in time that it is there, for as
// long.
func TestSteady(t *testing.T) {
	var s steady
	for i, c := range []struct{ now, want time.Duration }{
		{5000, 0}, {5020, 20}, {5060, 60}, // 40 s is just in time
		{5060 + 41, 0}, {5121, 20}, // the server stood still, or its clock was set
		{5000, 0}, {5020, 20}, // it was set back
		{5020, 20},
	} {
		if got := s.said(c.now*time.Second, 20*time.Second); got != c.want*time.Second {
			t.Errorf("number %d: %v; want %v s", i, got, c.want)
		}
	}
}
