package ui

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
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

func (h *hanging) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	if err := h.wait(ctx); err != nil {
		return node.Examination{}, err
	}
	return h.Node.Examine(ctx, look)
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
	must(t, err)
	t.Cleanup(g.Close)
	return g
}

// A node that hangs does not hold up what the others say.
func TestGroupWithAHangingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, hung := memnode.New("a"), memnode.New("b"), &hanging{Node: memnode.New("c"), after: time.Hour}
		g := groupOf(t, a, b, hung)
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{a, b, hung}, Label: "me"})
		must(t, err)
		defer locker.Close()
		lock, err := locker.Acquire(t.Context(), "x")
		must(t, err)
		defer lock.Release(t.Context())
		for i := range 5 {
			start := time.Now()
			p := look(t.Context(), g, "", []string{"x"}, nil)
			// It is taken for slow until it has had its time.
			want := grace
			if i < 3 {
				want = 2 * firstTime
			}
			if took := time.Since(start); took != want {
				t.Errorf("look %d took %v", i, took)
			}
			if n := p.nodes[2]; n.State != doctor.Down || n.Why == "" || p.nodes[0].State != doctor.Votes ||
				p.nodes[0].Why != "" {
				t.Errorf("look %d: %+v", i, p.nodes)
			}
			if p.err != nil || len(p.locks) != 1 || p.locks[0].State != admin.Held || p.locks[0].Votes[2].Err == nil ||
				p.single["x"].Label != "me" {
				t.Errorf("look %d: %v, %+v", i, p.err, p.locks)
			}
			time.Sleep(every)
		}
		time.Sleep(5 * time.Second) // what is under way was asked before
		synctest.Wait()
		hung.after = 0
		g.Nodes(t.Context())
		if p := look(t.Context(), g, "", nil, nil); p.nodes[2].State != doctor.Votes || p.locks[0].Votes[2].Err != nil {
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
		if took := time.Since(start); took != 5*time.Second || !errors.Is(p.err, fenlock.ErrNoQuorum) {
			t.Errorf("took %v, %v", took, p.err)
		}
		if n := p.nodes[1]; n.State != doctor.Down || !strings.Contains(n.Why, "no answer within 5s") {
			t.Errorf("a node that hangs is %+v", n)
		}
	})
}

// A node that comes late in one look is there in the next: it is not asked anew each time.
// Once it is known to be slow it has the time that it takes.
func TestGroupWithASlowNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &hanging{Node: memnode.New("c"), after: 1500 * time.Millisecond}
		g := groupOf(t, memnode.New("a"), memnode.New("b"), slow)
		for i, want := range []doctor.State{doctor.Down, doctor.Votes, doctor.Votes, doctor.Votes} {
			if n := g.Nodes(t.Context())[2]; n.State != want {
				t.Errorf("look %d: %+v", i, n)
			}
			if n := slow.asked.Load(); n != 1 && i < 2 {
				t.Errorf("asked %d times at once", n)
			}
			time.Sleep(200 * time.Millisecond)
		}
		slow.after = time.Hour // it hangs, which is not said at once
		time.Sleep(time.Minute)
		a := g.probes[2]
		a.took = 0
		for i, want := range []doctor.State{doctor.Votes, doctor.Votes, doctor.Votes, doctor.Votes, doctor.Down} {
			if n := g.Nodes(t.Context())[2]; n.State != want {
				t.Errorf("look %d while it hangs: %+v", i, n)
			}
			if _, err := a.Inspect(t.Context(), "x"); !errors.Is(err, errNoAnswer) {
				t.Errorf("it is asked: %v", err)
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
}

func TestGroupTellsWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := &hanging{Node: memnode.New("a"), err: errors.Join(fenlock.ErrMisconfigured, errors.New("a replica"))}
		g := groupOf(t, wrong, blind{memnode.New("b")}, memnode.New("c"))
		nodes := g.Nodes(t.Context())
		if nodes[0].State != doctor.Misconfigured || nodes[1].State != doctor.Down ||
			!strings.Contains(nodes[1].Why, "unsupported") || nodes[2].State != doctor.Votes {
			t.Errorf("%+v", nodes)
		}
		// What was found out is not believed for ever: a page may be opened much later.
		time.Sleep(believed + time.Second)
		wrong.err = nil
		if l, err := g.Inspect(t.Context(), "x"); err != nil || l.State != admin.Free {
			t.Errorf("%v, %v", l, err)
		}
	})
}

// What the page says of a node is what the doctor does: why it does not vote, until when,
// and what to do.
func TestNodesOf(t *testing.T) {
	info := func(name string, e node.Examination, err error) admin.NodeInfo {
		e.Server, e.Member, e.Role, e.RoundTrip = name, name, "primary", time.Millisecond
		return admin.NodeInfo{Node: name, Err: err, Examination: e}
	}
	own := []node.Finding{node.Found("crash", node.Note, "no matter").Do("Nothing."),
		node.Found("hangs", node.Warning, "it hangs").Do("Wake it.")}
	nodes := nodesOf(doctor.Group{Nodes: []admin.NodeInfo{
		info("a", node.Examination{Admitted: true, Product: "Valkey", Version: "8.0.1", Findings: own}, nil),
		info("b", node.Examination{Findings: own}, errors.New("b: no answer")),
		info("c", node.Examination{Why: "it lost its memory", Wait: 3 * time.Second}, nil),
		info("d", node.Examination{Admitted: true, Members: []string{"d", "x", "y"}}, nil),
		info("e", node.Examination{Why: "nobody has asked it"}, nil),
	}})
	for i, want := range []struct {
		state               doctor.State
		why, advice, beside string
	}{
		{doctor.Votes, "", "", "Valkey 8.0.1"},
		{doctor.Down, "no answer", "Wake it.", ""},
		{doctor.Out, "it lost its memory", "Wait, and restart no other server", ""},
		{doctor.Misconfigured, "it belongs to another group: d, x, y", "Name the same servers", ""},
		{doctor.Ready, "nobody has asked it", "", ""},
	} {
		n := nodes[i]
		if n.State != want.state || n.Why != want.why || !strings.HasPrefix(n.Advice, want.advice) ||
			(n.Advice == "") != (want.advice == "") || n.Note != want.beside || n.RoundTrip != time.Millisecond {
			t.Errorf("%+v", n)
		}
	}
	if nodes[2].Wait != 3*time.Second {
		t.Errorf("%+v", nodes[2])
	}
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
