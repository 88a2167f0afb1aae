package zknode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ url, servers, root, problem string }{
		{"zk://a", "a:2181", "/fenlock", ""},
		{"zk://a/", "a:2181", "/fenlock", ""},
		{"zk://B:2182,a/x/y", "b:2182 a:2181", "/x/y", ""},
		{"zk://u:p@a,[::1]:9,[::2]/x/", "a:2181 [::1]:9 [::2]:2181", "/x", ""},
		{"zk://u:p%40%3A@a", "a:2181", "/fenlock", ""},
		{"zookeeper://a", "", "", "no scheme"},
		{"zk://", "", "", "no host"},
		{"zk://a,,b", "", "", "no host"},
		{"zk://a,a:2181", "", "", "a:2181 twice"},
		{"zk://a:0", "", "", "a port"},
		{"zk://a:99999", "", "", "a port"},
		{"zk://a:b:c", "", "", "cannot be parsed"},
		{"zk://a?timeout=3", "", "", "no parameter"},
		{"zk://a#x", "", "", "fragment"},
		{"zk://a/x//y", "", "", "not that of a znode"},
		{"zk://a/../y", "", "", "not that of a znode"},
		{"zk://a/x%20y", "", "", "not that of a znode"},
		{"zk://a/zookeeper/x", "", "", "ZooKeeper's own"},
		{"zk://a/%zz", "", "", "cannot be parsed"},
		{"zk://secret@a", "", "", "a user and a password, or neither"},
		{"zk://secret:@a", "", "", "a user and a password, or neither"},
		{"zk://u:secret%zz@a", "", "", "cannot be parsed"},
		{"zk://u:secret@a?x", "", "", "no parameter"},
		{"zk://u@a?passwordfile=", "", "", "passwordfile is empty"},
		{"zk://u@a?passwordfile=/x&passwordfile=/y", "", "", "twice"},
		{"zk://u@a?passwordfile=/no/such/file", "", "", "/no/such/file does not exist"},
		{"zk://u:secret@a?passwordfile=/x", "", "", "one is enough"},
		{"zk://a?passwordfile=/x", "", "", "/x does not exist"},
		{"zk://:secret@a", "", "", "a user and a password, or neither"},
		{"zk://u%3Ax:secret@a", "", "", "a colon"},
	} {
		l, err := parse(c.url)
		if c.problem == "" {
			if err != nil || strings.Join(l.servers, " ") != c.servers || l.root != c.root || strings.Contains(l.name, "p@") {
				t.Errorf("%s: %+v, %v", c.url, l, err)
			}
		} else if !errors.Is(err, node.ErrInvalid) || !strings.Contains(err.Error(), c.problem) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %q", c.url, err, c.problem)
		}
	}
}

// Names are any bytes; a part of a path is not.
func FuzzEncode(f *testing.F) {
	f.Add("a/b", "a%2Fb")
	f.Add(strings.Repeat("x", 300), strings.Repeat("x", 301))
	f.Add(strings.Repeat("\x00", 300), strings.Repeat("\x00", 67)+"...")
	f.Add("", "%")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := encode(a), encode(b)
		if (x == y) != (a == b) {
			t.Errorf("%q and %q become %q and %q", a, b, x, y)
		}
		if x == "" || len(x) > longest ||
			strings.ContainsFunc(x, func(c rune) bool { return c <= ' ' || c > '~' || c == '/' }) || strings.Trim(x, ".") == "" {
			t.Errorf("%q becomes %q", a, x)
		}
		if strings.HasPrefix(a, b) && !mayBegin(x, b) {
			t.Errorf("%q begins with %q, which %q does not show", a, b, x)
		}
	})
}

// What is written is read as it was, and nothing else ends the program.
func FuzzRecords(f *testing.F) {
	f.Add("name\n", "holder\x00\xff", uint32(5), uint64(7), []byte("fenlock lease 1\nname \"a\"\n"))
	f.Add("", "x", uint32(5), uint64(7),
		[]byte("fenlock queue 1\nname \"a\"\nrenewed 1\nreserved \"\"\nuntil 1\n1 \"x\"\n"))
	f.Add("", "x", uint32(5), uint64(7), []byte("fenlock group 2\n"))
	f.Fuzz(func(t *testing.T, name, holder string, ms uint32, n uint64, other []byte) {
		l := lease{name: name, holder: node.Holder("h" + holder), ttl: time.Duration(ms) * time.Millisecond}
		if got, err := parseLease(l.text()); err != nil || got != l {
			t.Errorf("%+v becomes %+v, %v", l, got, err)
		}
		q := queueRecord{name: name, renewed: time.Duration(ms) * time.Millisecond, reserved: holder,
			waiters: rule.Waiters{{Waiter: strings.Repeat("a", 32) + ":1", Stamp: int64(n >> 11)}}}
		if got, err := parseQueue(q.text()); err != nil || got.name != q.name || got.reserved != q.reserved ||
			!slices.Equal(got.waiters, q.waiters) {
			t.Errorf("%+v becomes %+v, %v", q, got, err)
		}
		g := groupRecord{server: "s" + name, memory: "ABC",
			terms:    admit.Terms{MaxTTL: time.Duration(ms) * time.Millisecond, Members: holder},
			admitted: ms%2 == 0 && ms > 0 && holder != "", empty: []string{"x"}}
		if got, err := parseGroup(g.text()); err != nil || got.server != g.server || got.terms != g.terms ||
			got.admitted != g.admitted {
			t.Errorf("%+v becomes %+v, %v", g, got, err)
		}
		parseLease(other)
		parseQueue(other)
		parseGroup(other)
		parseRegister(other)
		readMailbox("c", wire.Reply{Data: other})
		new(memories).told(string(other), nil)
	})
}

// A newer format is not taken for nonsense.
func TestNewerFormat(t *testing.T) {
	for _, text := range []string{"fenlock group 2\nsomething else\n", "fenlock lease 9\n", "fenlock queue 3\n"} {
		var err error
		switch {
		case strings.Contains(text, "group"):
			_, err = parseGroup([]byte(text))
		case strings.Contains(text, "lease"):
			_, err = parseLease([]byte(text))
		default:
			_, err = parseQueue([]byte(text))
		}
		if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "upgrade") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Versions of 32 bits end some day, and one of them means any: long before, the register's
// znode is made anew.
func TestVersionsEnd(t *testing.T) {
	for version, renewed := range map[int32]bool{0: false, renewAt - 1: false, renewAt: true, -1: true, -5: true,
		1<<31 - 1: true} {
		ops := setRegister("/x", &view{registerThere: true, version: version}, []byte("7"), nil)
		if (len(ops) == 2) != renewed {
			t.Errorf("at version %d: %+v", version, ops)
		}
	}
	if ops := setRegister("/x", &view{}, nil, nil); len(ops) != 1 {
		t.Error(ops)
	}
}

// A server that sends nonsense costs its connection, and neither the program nor much memory.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	connected := "\x00\x00\x00\x25" + "\x00\x00\x00\x00" + "\x00\x00\xea\x60" + "\x00\x00\x00\x00\x00\x00\x00\x07" +
		"\x00\x00\x00\x10" + strings.Repeat("p", 16) + "\x00"
	header := "\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00"
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	for i, says := range []string{
		"", "HTTP/1.1 400 Bad Request\r\n\r\n", "\xff\xff\xff\xff", "\x7f\xff\xff\xff", "\x00\x00\x00\x00",
		"\x00\x00\x00\x01x",
		connected, connected + "\xff\xff\xff\xff", connected + "\x00\x40\x00\x00" + random(100),
		connected + "\x00\x00\x00\x10\x00\x00\x00\x01" + header,
		connected + "\x00\x00\x00\x14\x00\x00\x00\x01" + header + "\x7f\xff\xff\xff",
		connected + "\x00\x00\x00\x10\x00\x00\x00\x63" + header, connected + "\x00\x00\x00\x10\xff\xff\xff\xff" + header,
		connected + "\x00\x00\x00\x10\xff\xff\xff\xfe" + header,
		connected + "\x00\x00\x00\x14\x00\x00\x00\x01" + header + "\xff\xff\xff\xf0",
		strings.Replace(connected, "\xea\x60", "\x00\x00", 1), random(500), connected + random(500),
		connected + "\x00\x00\x00\x40" + random(64),
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				io.WriteString(conn, says)
				conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				io.Copy(io.Discard, conn)
				conn.Close()
			}
		}()
		n := open(t, "zk://"+listener.Addr().String())
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		a, err := n.Do(ctx, as(node.Acquire, request("a", "me", 0)))
		cancel()
		if err == nil && a.Status != node.Rejoining {
			t.Errorf("%d: answered %+v", i, a)
		}
		if err != nil && !strings.Contains(err.Error(), listener.Addr().String()) {
			t.Errorf("%d: %v does not name the server", i, err)
		}
		n.Close()
		listener.Close()
		<-ended
	}
}

// All answers to all requests, however damaged.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x7f\xff\xff\xff"))
	f.Add([]byte(fmt.Sprint(strings.Repeat("\x00", 90))))
	f.Fuzz(func(t *testing.T, message []byte) {
		h, body, err := wire.ReadHeader(message)
		if err != nil {
			return
		}
		h.Err = wire.OK
		for _, r := range []wire.Request{wire.Get{}, wire.Set{}, wire.Create{}, wire.Children{}, wire.Sync{}, wire.Delete{},
			wire.Multi{wire.Check{}, wire.Set{}, wire.Create{}, wire.Delete{}}} {
			wire.Read(h, body, r)
		}
		wire.ReadEvent(body)
		wire.ReadConnected(body)
	})
}

// A lease of the same holder in another session is not this client's to end.
func TestKeeperKnowsItsSession(t *testing.T) {
	k := keeper{leases: map[leaseKey]*keptLease{
		{"a", "me"}: {session: 1, ends: time.Now()},
		{"b", "me"}: {session: 1, ends: time.Now().Add(time.Hour)},
		{"c", "me"}: {session: 1, ends: time.Now(), under: 1}, // an extension is under way
	}}
	for name, over := range map[string]bool{"a": true, "b": false, "c": false, "d": false} {
		if k.over(name, "me", 1) != over || k.over(name, "me", 2) || k.over(name, "other", 1) {
			t.Errorf("%s: %v, in another session %v", name, k.over(name, "me", 1), k.over(name, "me", 2))
		}
	}
}
