package cas

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/nodetest"
)

// polled and queued are nodes of a memory, as an adapter makes them.
type (
	polled struct{ *Node }
	queued struct{ Queued }
)

func openPolled(m *memory) *polled {
	n := &polled{}
	n.Node = New(n, Marked(m), Config{Kind: "memory", Name: "m"})
	n.admission, n.now = admit.New(n, n.store, 0), m.clock
	return n
}

func openQueued(m *memory) *queued {
	n := &queued{}
	n.Queued = NewQueued(n, teller{Marked(m), m}, Config{Kind: "memory", Name: "m"})
	n.admission, n.now = admit.New(n, n.store, 0), m.clock
	return n
}

// fakeClock is moved by hand.
type fakeClock struct{ now atomic.Int64 }

// Now goes on by a microsecond each time: no two notices are of one time.
func (c *fakeClock) Now() time.Duration       { return time.Duration(c.now.Add(int64(time.Microsecond))) }
func (c *fakeClock) Advance(by time.Duration) { c.now.Add(int64(by)) }

// wall is a clock that goes by itself.
func wall() time.Duration { return time.Duration(time.Now().UnixNano()) }

// join has a node be a new group of its own.
func join[N node.Node](t testing.TB, n N) N {
	t.Helper()
	if err := n.Engine().(node.Rejoiner).Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour,
		New: true}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestConformance(t *testing.T) {
	for name, open := range map[string]func(*memory) node.Node{
		"polled": func(m *memory) node.Node { return openPolled(m) },
		"queued": func(m *memory) node.Node { return openQueued(m) },
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Run(t, func(t *testing.T) nodetest.Harness {
				clock := new(fakeClock)
				clock.Advance(time.Hour)
				m := newMemory(clock.Now, false)
				return nodetest.Harness{Node: join(t, open(m)), Other: join(t, open(m)), Wait: clock.Advance, Fast: true}
			})
		})
		t.Run(name+" and exact", func(t *testing.T) {
			nodetest.Run(t, func(t *testing.T) nodetest.Harness {
				clock := new(fakeClock)
				clock.Advance(time.Hour)
				m := newMemory(clock.Now, true)
				return nodetest.Harness{Node: join(t, open(m)), Other: join(t, open(m)), Wait: clock.Advance, Fast: true}
			})
		})
	}
}

func TestAdmission(t *testing.T) {
	for name, exact := range map[string]bool{"read": false, "compared": true} {
		t.Run(name, func(t *testing.T) {
			nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
				clock := new(fakeClock)
				clock.Advance(time.Hour)
				m := newMemory(clock.Now, exact)
				return nodetest.Admission{Open: func() node.Node { return openPolled(m) }, Wipe: m.wipe, Copy: m.copied,
					Wait: clock.Advance}
			})
		})
	}
}
