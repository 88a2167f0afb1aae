package zknode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// What is ZooKeeper's own of a URL; package engine has the rest.
func TestParse(t *testing.T) {
	for _, c := range []struct{ url, servers, root, problem string }{
		{"zk://a", "a:2181", "/fenlock", ""},
		{"zk://a/", "a:2181", "/fenlock", ""},
		{"zk://B:2182,a/x/y", "b:2182 a:2181", "/x/y", ""},
		{"zk://u:p@a,[::1]:9,[::2]/x/", "a:2181 [::1]:9 [::2]:2181", "/x", ""},
		{"zk://u:p%40%3A@a", "a:2181", "/fenlock", ""},
		{"zookeeper://a", "", "", "no scheme"},
		{"zk://a,a:2181", "", "", "a:2181 twice"},
		{"zk://a/x//y", "", "", "not that of a znode"},
		{"zk://a/../y", "", "", "not that of a znode"},
		{"zk://a/x%20y", "", "", "not that of a znode"},
		{"zk://a/zookeeper/x", "", "", "ZooKeeper's own"},
		{"zk://secret@a", "", "", "a user and a password, or neither"},
		{"zk://secret:@a", "", "", "a user and a password, or neither"},
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

// What is written is read as it was, and nothing else ends the program.
func FuzzRecords(f *testing.F) {
	f.Add("name\n", "holder\x00\xff", uint32(5), uint64(7), []byte("fenlock stripe 2\nmemory \"a\"\nat 5\nparts 1\n"))
	f.Add("", "x", uint32(5), uint64(7), []byte("fenlock stripe 2\nmemory \"a\"\nat 5\nparts 0\nfenlock record 1\n"))
	f.Add("", "x", uint32(5), uint64(7), []byte("fenlock group 2\n"))
	f.Fuzz(func(t *testing.T, name, holder string, ms uint32, n uint64, other []byte) {
		z := cas.Timed{Memory: name, At: time.Duration(ms) * time.Millisecond}
		z.Register = fence.Token(n >> 12)
		if got, err := cas.ParseTimed(z.Text()); err != nil || got.Memory != z.Memory || got.At != z.At ||
			got.Register != z.Register {
			t.Errorf("%+v becomes %+v, %v", z, got, err)
		}
		g := groupRecord{server: "s" + name, memory: "ABC",
			terms:    admit.Terms{MaxTTL: time.Duration(ms) * time.Millisecond, Members: holder},
			admitted: ms%2 == 0 && ms > 0 && holder != "", empty: []string{"x"}}
		if got, err := parseGroup(g.text()); err != nil || got.server != g.server || got.terms != g.terms ||
			got.admitted != g.admitted {
			t.Errorf("%+v becomes %+v, %v", g, got, err)
		}
		if z, err := cas.ParseTimed(other); err == nil {
			z.Parts()
		}
		parseGroup(other)
		readMailbox("c", wire.Reply{Data: other})
	})
}

// What a person has changed in the record of the group is refused, and not repeated.
func TestChangedGroup(t *testing.T) {
	text := string(groupRecord{server: "a", memory: "MEM", admitted: true,
		terms: admit.Terms{MaxTTL: time.Second, Members: "one two"}, empty: []string{"x", "y"}}.text())
	for _, change := range [][2]string{{"", ""}, {text[len(text)-1:], ""}, {"MEM", "mem"}, {`"a"`, `""`}, {`"a"`, "a"},
		{"1000", "0"}, {"1000", "-1000"}, {"1000", "1e3"}, {"1000", "99999999999999999"}, {"true", "yes"}, {"one two", ""},
		{"server", "secret"}, {"maxttl", "memory"}} {
		changed := strings.Replace(text, change[0], change[1], 1)
		_, err := parseGroup([]byte(changed))
		if (err == nil) != (changed == text) || err != nil && (!errors.Is(err, node.ErrMisconfigured) ||
			!strings.Contains(err.Error(), "not as fenlock writes it") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v", changed, err)
		}
	}
}

// Another format is not taken for nonsense.
func TestAnotherFormat(t *testing.T) {
	for text, parse := range map[string]func([]byte) error{
		"fenlock group 3\nsomething else\n": func(b []byte) error { _, err := parseGroup(b); return err },
		"fenlock group 1\nsomething else\n": func(b []byte) error { _, err := parseGroup(b); return err },
		"fenlock stripe 9\n":                func(b []byte) error { _, err := cas.ParseTimed(b); return err },
		"fenlock stripe 2\nmemory \"A\"\nat 1\nparts 0\nfenlock record 9\n": func(b []byte) error {
			_, err := cas.ParseTimed(b)
			return err
		},
	} {
		if err := parse([]byte(text)); !errors.Is(err, node.ErrMisconfigured) ||
			!strings.Contains(err.Error(), "use one version of fenlock") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Versions of 32 bits end some day, and one of them means any: long before, the register's
// znode is made anew.
func TestVersionsEnd(t *testing.T) {
	for version, renewed := range map[int32]bool{0: false, renewAt - 1: false, renewAt: true, -1: true, -5: true,
		1<<31 - 1: true} {
		ops := set("/x", znode{Timed: cas.Timed{There: true}, version: version}, []byte("7"), nil)
		if (len(ops) == 2) != renewed {
			t.Errorf("at version %d: %+v", version, ops)
		}
	}
	if ops := set("/x", znode{}, nil, nil); len(ops) != 1 {
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
