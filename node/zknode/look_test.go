package zknode

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/fenlock/fenlock/node"
)

// hearing calls a function, once, when the answer to a question about a register has come,
// and before it is read.
type hearing struct {
	net.Conn
	next  *atomic.Pointer[func()]
	asked *atomic.Bool
}

func (h hearing) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("/stripes/")) {
		h.asked.Store(true)
	}
	return h.Conn.Write(b)
}

func (h hearing) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if h.asked.Swap(false) {
		if f := h.next.Swap(nil); f != nil {
			(*f)()
		}
	}
	return n, err
}

// hook is a dial whose connections are hearing.
type hook struct{ *atomic.Pointer[func()] }

func newHook() hook { return hook{new(atomic.Pointer[func()])} }

func (h hook) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := dialTCP(ctx, address)
	return hearing{conn, h.Pointer, new(atomic.Bool)}, err
}

// An operator looks while the same client acquires. The register is larger by the time that it is
// looked at: that is no lost memory.
func TestLooksWhileItAcquires(t *testing.T) {
	url, next := freshURL(), newHook()
	n := voting(t, url, WithDial(next.dial))
	other := voting(t, url)
	for range 3 {
		var granted node.Answer
		acquire := func() {
			granted = want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, request("a", "me", 0))))
			n.known.saw(n.vote.Load().memory, node.Stripe("a"), granted.Register)
		}
		next.Store(&acquire)
		l, err := n.Inspect(t.Context(), "a")
		if err != nil || l.Out || granted.Register == 0 {
			t.Fatalf("%+v, %v, while %+v", l, err, granted)
		}
		want(t, node.Granted)(n.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: "a"}))
	}
}
