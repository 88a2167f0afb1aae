package valkeynode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// liar is a member of a cluster that says of the slot what it is told to.
type liar struct {
	net.Listener
	dials atomic.Int64
	says  string // to all but the questions about itself
}

func newLiar(t *testing.T) *liar {
	l := new(liar)
	l.Listener = Serve(t, func() func([]string) []byte {
		l.dials.Add(1)
		return l.reply
	})
	return l
}

func (l *liar) reply(args []string) []byte {
	switch strings.ToUpper(args[0]) {
	case "HELLO":
		return honest(args)
	case "CLIENT":
		return []byte("+OK\r\n")
	case "INFO":
		text := strings.ReplaceAll(info, "server_mode:standalone", "server_mode:cluster")
		return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(text), text)
	}
	return []byte(l.says + "\r\n")
}

// A slot whose owner is not found costs each look a few connections, whatever the members say. The
// error is the word of a server that says most.
func TestSlotThatIsNotFound(t *testing.T) {
	const tries, most = 20, 7 // a look follows six redirections
	for _, c := range []struct{ name, a, b, want string }{
		{"each names the other", "-MOVED 1 B", "-MOVED 1 A", "MOVED"},
		{"each names itself", "-MOVED 1 A", "-MOVED 1 B", "MOVED"},
		{"moved to a server that is down", "-MOVED 1 127.0.0.1:1", "-MOVED 1 127.0.0.1:1", "MOVED 1 127.0.0.1:1"},
		{"one says more", "-MOVED 1 127.0.0.1:1", "-CLUSTERDOWN Hash slot not served", "Hash slot not served"},
		{"not served", "-CLUSTERDOWN Hash slot not served", "-CLUSTERDOWN Hash slot not served", "Hash slot not served"},
		{"no address", "-MOVED 1 :", "-MOVED", "MOVED"},
		{"a long address", "-MOVED 1 " + strings.Repeat("x", 3000) + ":1", "-ASK 1 x", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newLiar(t), newLiar(t)
			names := strings.NewReplacer("A", a.Addr().String(), "B", b.Addr().String())
			if !strings.Contains(c.a+c.b, "CLUSTERDOWN") && !strings.Contains(c.b, "ASK") {
				c.a, c.b = "-MOVED"+names.Replace(c.a[6:]), "-MOVED"+names.Replace(c.b[6:])
			}
			a.says, b.says = c.a, c.b
			n, err := Open("valkey-cluster://" + a.Addr().String() + "," + b.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Second}); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			for range tries {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				_, err := n.Do(ctx, node.Request{Op: node.Acquire, Name: "a", Holder: "00000000000000000000000000000001:x",
					TTL: time.Second, Token: 1})
				cancel()
				if !errors.Is(err, node.ErrNotSent) || errors.Is(err, node.ErrMisconfigured) ||
					!strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v; want an error that says %q, and that nothing was sent", err, c.want)
				}
			}
			looks := min(tries, 1+time.Since(begun)/(50*time.Millisecond)) // it rests in between
			if dials := a.dials.Load() + b.dials.Load(); dials > int64(looks)*most {
				t.Errorf("%d connections for %d looks", dials, looks)
			}
		})
	}
}
