package cas

import (
	"context"
	"testing"

	"github.com/fenlock/fenlock/node"
)

// Where a read may be old, a refusal is a write.
func TestRefusalIsWritten(t *testing.T) {
	for _, behind := range []bool{true, false} {
		m := newMemory(new(fakeClock).Now, true)
		n, other := join(t, openPolled(m)), join(t, openPolled(m))
		n.config.Behind = behind
		take(t, other, "a")
		puts := m.puts
		want(t, node.Held)(n.Do(t.Context(), request(node.Acquire, "a")))
		if written := m.puts > puts; written != behind {
			t.Errorf("behind %v: written %v", behind, written)
		}
		n.Close()
		other.Close()
	}
}

// Where a write compares everything, what this process has saved last serves for a grant. It is
// read again once another client has changed it.
func TestRememberedRecordServes(t *testing.T) {
	m := newMemory(new(fakeClock).Now, true)
	n, other := join(t, openPolled(m)), join(t, openPolled(m))
	defer n.Close()
	defer other.Close()
	n.config.Exact = true
	r := take(t, n, "a")
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	looks := m.looks
	r = take(t, n, "a")
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	if m.looks != looks {
		t.Errorf("it was looked at %d times", m.looks-looks)
	}
	b := take(t, other, sibling("a"))
	if a := want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r))); a.Register >= b.Token {
		t.Errorf("the origin %d is past another lease's %d", a.Register, b.Token)
	}
	if !n.recent.avoided(node.Stripe("a")) {
		t.Error("a record that others change is not read")
	}
}

// looser is a store that finds what has ended by a second look.
type looser struct {
	Store
	asked int
}

func (l *looser) Load(ctx context.Context, stripe int) (Loaded, error) {
	loaded, err := l.Store.Load(ctx, stripe)
	r := loaded.Record
	loaded.Closer = func(context.Context) (Record, error) {
		l.asked++
		r.Leases = nil
		return r, nil
	}
	return loaded, err
}

// A second look comes before a refusal, and before nothing else.
func TestCloserLook(t *testing.T) {
	m := newMemory(new(fakeClock).Now, true)
	n, other := join(t, openPolled(m)), join(t, openPolled(m))
	defer n.Close()
	defer other.Close()
	second := &looser{Store: n.store}
	n.store = second
	r := take(t, n, sibling("a"))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	take(t, other, "a")
	if take(t, n, "a"); second.asked != 1 {
		t.Errorf("it has looked %d times", second.asked)
	}
}

// silent is a store that does not vote, and so writes nothing.
type silent struct{ Store }

func (silent) Load(context.Context, int) (Loaded, error) { return Loaded{}, nil }

func (silent) Save(_ context.Context, _ int, _ Record, over Loaded) (Loaded, error) { return over, nil }

// A write that may be on its way still is while nothing else is written.
func TestDoubtOutlivesWhatWritesNothing(t *testing.T) {
	n := New(nil, silent{}, Config{})
	stripe := node.Stripe("a")
	n.recent.doubt(stripe)
	if _, err := n.Do(t.Context(), request(node.Release, "a")); err != nil {
		t.Fatal(err)
	}
	if _, is := n.recent.take(stripe); is || !n.recent.doubted(stripe) {
		t.Error("what was not written is taken for written")
	}
}
