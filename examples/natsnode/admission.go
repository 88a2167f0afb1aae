package natsnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// markKey is the key of the mark of admission, or of the note that the bucket is out.
const markKey = "admission"

// mark is what is stored there. Its revision is its name, which each record of a stripe repeats: a
// later mark makes the leases under all earlier ones void.
type mark struct {
	Admitted bool
	Created  time.Time // of the bucket that this is the mark of: a copy may have another one
	Memory   string    // made up with the note, and kept by the mark
	Terms    admit.Terms
	Empty    []string   // as in node.Registers
	Cause    node.Cause // of a note

	revision uint64
	written  time.Duration // when, by the server's clock
}

func (n *Node) mark(ctx context.Context) (m mark, err error) {
	revision, written, err := n.get(ctx, markKey, &m)
	m.revision, m.written = revision, time.Duration(written.UnixNano())
	return m, err
}

// votes reports whether this is the mark of what the bucket is now.
func (m mark) votes(at now) bool { return m.Admitted && m.Created.Equal(at.created) }

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error { return n.errorf("join", n.admission.Join(g)) }

// Admission returns what has the node admitted, for the other nodes of its group.
func (n *Node) Admission() *admit.Admission { return n.admission }

// store is what package admit asks. Its methods are operations as any other.
type store struct{ *Node }

// looked is what a write of the mark compares.
type looked struct {
	at   now
	mark mark
}

// Facts implements admit.Store. What a server says that is not the leader any more is compared by
// Note and Mark, which are writes. That the time is read first has Out rounded down.
func (s store) Facts(ctx context.Context) (f admit.Facts, err error) {
	ctx, done, err := s.life.Begin(ctx)
	if err != nil {
		return f, s.errorf("look", err)
	}
	defer done()
	at, err := s.look(ctx, jetstream.WithSubjectFilter(s.config.subject(">")))
	if err != nil {
		return f, s.errorf("look", err)
	}
	m, err := s.mark(ctx)
	if err != nil {
		return f, s.errorf("look", err)
	}
	of := m.revision > 0 && m.Created.Equal(at.created)
	f = admit.Facts{Server: at.server, Memory: fmt.Sprint(m.Memory, " ", at.created.UnixNano()), Terms: m.Terms,
		Votes: m.votes(at), Marked: m.Admitted, Recorded: m.Admitted || m.Terms != (admit.Terms{}) || at.stripes,
		Counted: of && !m.Admitted, Out: at.clock - m.written, Cause: m.Cause,
		Untouched: !m.Admitted, Empty: m.Empty, State: looked{at, m}}
	if !of && m.revision > 0 {
		f.Cause = node.Replaced
	} else if !of {
		f.Cause = node.Unused
	}
	return f, nil
}

// Note implements admit.Store. Leases go in the same step, since the note has another revision.
func (s store) Note(ctx context.Context, f admit.Facts) (bool, error) {
	return s.set(ctx, "note", f, mark{Memory: rand.Text(), Terms: f.Terms, Cause: f.Cause})
}

// Mark implements admit.Store.
func (s store) Mark(ctx context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	if f.Terms != (admit.Terms{}) {
		own = f.Terms // as checked
	}
	return s.set(ctx, "admit", f, mark{Admitted: true, Memory: f.State.(looked).mark.Memory, Terms: own, Empty: empty})
}

// set replaces the mark that was looked at, in the bucket that was.
func (s store) set(ctx context.Context, what string, f admit.Facts, m mark) (bool, error) {
	ctx, done, err := s.life.Begin(ctx)
	if err != nil {
		return false, s.errorf(what, err)
	}
	defer done()
	was := f.State.(looked)
	m.Created = was.at.created
	err = s.put(ctx, markKey, m, was.mark.revision, was.at.last)
	if errors.Is(err, errChanged) {
		return false, nil
	}
	return err == nil, s.errorf(what, err)
}

// Raise implements admit.Store. Leases stay as they are: the mark to come makes them void.
func (s store) Raise(ctx context.Context, _ admit.Facts, tokens map[int]fence.Token) error {
	ctx, done, err := s.life.Begin(ctx)
	if err != nil {
		return s.errorf("raise", err)
	}
	defer done()
	records, err := s.scan(ctx)
	if err != nil {
		return s.errorf("raise", err)
	}
	for stripe, token := range tokens {
		for r := records[stripe]; r == nil || r.Registers[stripe] < token; {
			at, err := s.look(ctx)
			if err == nil {
				r, err = s.read(ctx, stripe)
			}
			if err == nil && r.Registers[stripe] < token {
				r.Raise(map[int]fence.Token{stripe: token})
				err = s.write(ctx, r, at)
			}
			if errors.Is(err, errChanged) {
				r = nil
			} else if err != nil {
				return s.errorf("raise", err)
			}
		}
	}
	return nil
}

// Registers implements node.Rejoiner.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	ctx, done, err := n.life.Begin(ctx)
	if err != nil {
		return node.Registers{}, n.errorf("registers", err)
	}
	defer done()
	// The memory of a bucket that is out has its name from the note.
	before, err := n.admission.Noted(ctx)
	if err != nil {
		return node.Registers{}, n.errorf("registers", err)
	}
	records, err := n.scan(ctx)
	if err != nil {
		return node.Registers{}, n.errorf("registers", err)
	}
	// They are of this memory if it is the same afterwards.
	f, err := store{n}.Facts(ctx)
	if err != nil {
		return node.Registers{}, n.errorf("registers", err)
	}
	if f.Memory != before.Memory || f.Votes != before.Votes {
		return node.Registers{}, n.errorf("registers", errChanged)
	}
	r := node.Registers{Server: f.Server, Memory: f.Memory, Admitted: f.Votes, Empty: f.Empty,
		MaxTTL: f.Terms.MaxTTL, Members: f.Terms.Members, Tokens: map[int]fence.Token{}}
	for stripe, of := range records {
		r.Tokens[stripe] = of.Registers[stripe]
	}
	return r, nil
}
