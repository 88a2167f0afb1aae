package ui

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// hanging is a node that answers its operator late, or with an error.
type hanging struct {
	*memnode.Node
	after time.Duration
	err   error
	asked atomic.Int64
}

func (h *hanging) Engine() any { return h }

func (h *hanging) wait(ctx context.Context) error {
	h.asked.Add(1)
	select {
	case <-time.After(h.after):
		return h.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hanging) Inspect(ctx context.Context, name string) (node.Lease, error) {
	if err := h.wait(ctx); err != nil {
		return node.Lease{}, err
	}
	return h.Node.Inspect(ctx, name)
}

func (h *hanging) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	if err := h.wait(ctx); err != nil {
		return err
	}
	return h.Node.List(ctx, prefix, yield)
}

func groupOf(t *testing.T, nodes ...fenlock.Node) *Group {
	t.Helper()
	g, err := NewGroup(nodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// A node that hangs does not hold up what the others say.
func TestGroupWithAHangingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, hung := memnode.New("a"), memnode.New("b"), &hanging{Node: memnode.New("c"), after: time.Hour}
		g := groupOf(t, a, b, hung)
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{a, b, hung}, Label: "me"})
		if err != nil {
			t.Fatal(err)
		}
		defer locker.Close()
		lock, err := locker.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Release(t.Context())
		for i := range 5 {
			start := time.Now()
			p := look(t.Context(), g, "", []string{"x"}, nil)
			if took := time.Since(start); took != grace {
				t.Errorf("look %d took %v", i, took)
			}
			if n := p.nodes[2]; n.State != fenlock.NodeDown || n.Err == nil || p.nodes[0].State != fenlock.NodeWorks || p.nodes[0].Err != nil {
				t.Errorf("look %d: %+v", i, p.nodes)
			}
			if p.err != nil || len(p.locks) != 1 || p.locks[0].State != fenlock.Held || p.locks[0].Votes[2].Err == nil || p.single["x"].Label != "me" {
				t.Errorf("look %d: %v, %+v", i, p.err, p.locks)
			}
			time.Sleep(every)
		}
		time.Sleep(patience) // what is under way was asked before
		synctest.Wait()
		hung.after = 0
		g.Nodes(t.Context())
		if p := look(t.Context(), g, "", nil, nil); p.nodes[2].State != fenlock.NodeWorks || p.locks[0].Votes[2].Err != nil {
			t.Errorf("it answers, and is %+v", p.nodes[2])
		}
	})
}

// While too few answer, the others are waited for: as long as any one has patience.
func TestGroupWithoutAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func(after time.Duration) *hanging { return &hanging{Node: memnode.New(after.String()), after: after} }
		g := groupOf(t, memnode.New("a"), late(time.Hour), late(2*time.Hour))
		start := time.Now()
		p := look(t.Context(), g, "", nil, nil)
		if took := time.Since(start); took != patience || !errors.Is(p.err, fenlock.ErrNoQuorum) {
			t.Errorf("took %v, %v", took, p.err)
		}
		if err := p.nodes[1].Err; !errors.Is(err, errNoAnswer) {
			t.Errorf("the error of a node that hangs is %v", err)
		}
	})
}

// A node that comes late in one look is there in the next: it is not asked anew each time.
func TestGroupWithASlowNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &hanging{Node: memnode.New("c"), after: 1500 * time.Millisecond}
		g := groupOf(t, memnode.New("a"), memnode.New("b"), slow)
		for range 3 {
			g.Nodes(t.Context())
			time.Sleep(200 * time.Millisecond)
		}
		if n := slow.asked.Load(); n != 1 {
			t.Errorf("asked %d times at once", n)
		}
	})
}

func TestGroupTellsWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := &hanging{Node: memnode.New("a"), err: errors.Join(fenlock.ErrMisconfigured, errors.New("a replica"))}
		g := groupOf(t, wrong, blind{memnode.New("b")}, memnode.New("c"))
		nodes := g.Nodes(t.Context())
		if nodes[0].State != fenlock.NodeMisconfigured || nodes[1].State != fenlock.NodeDown || !errors.Is(nodes[1].Err, errors.ErrUnsupported) || nodes[2].State != fenlock.NodeWorks {
			t.Errorf("%+v", nodes)
		}
		// What was found out is not believed for ever: a page may be opened much later.
		time.Sleep(believed + time.Second)
		wrong.err = nil
		if l, err := g.Inspect(t.Context(), "x"); err != nil || l.State != fenlock.Free {
			t.Errorf("%v, %v", l, err)
		}
	})
}

// blind is a node without an Admin.
type blind struct{ fenlock.Node }

func (b blind) Engine() any { return b }

func TestGroupIsRefused(t *testing.T) {
	a := memnode.New("a")
	for _, nodes := range [][]fenlock.Node{nil, {nil}, {a, a}} {
		if _, err := NewGroup(nodes); err == nil {
			t.Errorf("%v is a group", nodes)
		}
	}
}
