package fenlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
)

// asked is a Node that remembers what it was asked, and until when.
type asked struct {
	node.Node
	until []time.Duration
}

func (a *asked) Engine() any { return nil }

func (a *asked) Do(ctx context.Context, _ node.Request) (node.Answer, error) {
	end, _ := ctx.Deadline()
	a.until = append(a.until, time.Until(end))
	return node.Answer{Status: node.Granted}, nil
}

// wanted is a node.Call.
type wanted bool

func (w wanted) Wanted() bool          { return bool(w) }
func (wanted) Done(node.Answer, error) {}

// A goroutine may run long after it was begun: the process was stopped. What it sent then could set
// a lease that no client knows of.
func TestPlainNodesAreNotAskedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all running
		n := &asked{}
		p := newPeer(n, &all)
		p.Start(t.Context(), node.Request{}, time.Second, wanted(true))
		p.Start(t.Context(), node.Request{}, time.Second, wanted(false))
		all.Wait()
		if len(n.until) != 1 || n.until[0] != time.Second {
			t.Errorf("asked with so much time left each: %v; want 1s, once", n.until)
		}
	})
}
