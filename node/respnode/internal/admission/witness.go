package admission

import (
	"context"
	"fmt"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
)

// Witness says which replicas of a server must have an acceptance before it counts. An old primary
// that goes on beside its promoted replica then promises nothing: that replica follows it no more.
//
// AllReplicas is all that the server was seen with since it was admitted. Their number is in the
// mark of admission, so that all clients know it. It never becomes smaller by itself: a replica
// that is missing may have been promoted. NoReplica is none. A number is so many, whichever they
// are.
type Witness int

// The witnesses that are no number.
const (
	NoReplica   Witness = -1
	AllReplicas Witness = 0
)

// Seen is what is known of the replicas of a server.
type Seen struct {
	command.Replicas
	Recorded int  // in the mark of admission
	Marked   bool // the mark is there, and of this server
}

// Needs returns how many replicas must have an acceptance.
func (w Witness) Needs(seen Seen) int {
	switch w {
	case NoReplica:
		return 0
	case AllReplicas:
		return seen.Recorded
	}
	return int(w)
}

// Verdict is whether a server's replicas allow it to promise something.
type Verdict uint8

// The verdicts.
const (
	Witnessed  Verdict = iota // it does, if the replicas have it
	Unrecorded                // it has more replicas than are recorded: that comes first
	Missing                   // it has fewer than must have it
)

// Judge decides by what is known before a request is sent, and by what a server says behind it.
func (w Witness) Judge(seen Seen) Verdict {
	switch {
	case w == AllReplicas && seen.Marked && seen.InStep > seen.Recorded:
		return Unrecorded
	case seen.Marked && seen.InStep < w.Needs(seen):
		return Missing
	}
	return Witnessed
}

// Counts returns why an acceptance does not count, or nil. So many replicas have confirmed a batch,
// or err is why that is not known. The server has these replicas after that. Each confirmation
// is of one connection. So a replica beyond the recorded ones may have confirmed in place of one
// that was promoted.
func (w Witness) Counts(seen Seen, confirmed int64, err error) error {
	need := w.Needs(seen)
	switch {
	case err != nil && need > 0:
		return fmt.Errorf("whether the server's replicas have it is not known: %w", err)
	case confirmed < int64(need):
		return fmt.Errorf("%d of the %d replicas that may be promoted have confirmed it", confirmed, need)
	case w.Judge(seen) == Unrecorded:
		return fmt.Errorf("the server has %d replicas, of which %d are recorded", seen.InStep, seen.Recorded)
	}
	return nil
}

// Witnessed returns the server when it may promise something, as far as its replicas are concerned.
// It records how many there are. The error is that some are missing, and nothing was sent.
func (v *Voting) Witnessed(ctx context.Context, s *Server) (*Server, error) {
	for {
		switch v.witness.Judge(s.seen) {
		case Witnessed:
			return s, v.mayWait(ctx, s)
		case Missing:
			s.stale.Store(true)
			v.store.link.Renew(s.dial)
			migrated := ""
			if v.store.keys.Clustered() {
				migrated = "; the cluster may have moved one (cluster-allow-replica-migration has to be no)"
			}
			return nil, fmt.Errorf("the server has %d of the %d replicas that may be promoted in its place, so that nothing that it promises would count%s: fenlock doctor says what to do (docs/valkey.md, “Replicas”)",
				s.seen.InStep, v.witness.Needs(s.seen), migrated)
		}
		_, err := command.ParseStep(v.store.link.Do(ctx, v.store.keys.Witness(s.replID, s.mark, s.seen.InStep)))
		s.stale.Store(true)
		if err == nil {
			s, err = v.Look(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}

// mayWait finds a server that does not let this client wait for its replicas, before anything
// is leased there. A lease that was made would look like another client's.
func (v *Voting) mayWait(ctx context.Context, s *Server) error {
	if v.witness.Needs(s.seen) == 0 || s.waits.Load() {
		return nil
	}
	reply, err := v.store.link.Do(ctx, command.Wait(0, 0))
	if err == nil {
		_, err = reply.AsInt64()
	}
	if err != nil {
		return fmt.Errorf("whether the server's replicas have what it promises cannot be asked (the URL's parameter witness): %w",
			v.store.errors.Describe(err))
	}
	s.waits.Store(true)
	return nil
}

// accepts reports whether an answer is an acceptance, whose loss would break a promise. A refusal
// promises nothing, and a release neither.
func accepts(op node.Op, a node.Answer) bool {
	return op != node.Release && (a.Status == node.Granted || a.Given != 0)
}
