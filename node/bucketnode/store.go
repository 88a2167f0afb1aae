package bucketnode

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/cas"
)

// store is what package cas asks of a bucket.
type store struct {
	*object
	proof         *proof
	reads, writes *lane
	joined        func() bool
	raise         atomic.Pointer[raise] // what Mark does as well, nil at first
}

// raise is what registers have to be at least, if the object is still what was looked at.
type raise struct {
	over *snapshot
	to   map[int]fence.Token
}

// change makes a state another one. It returns an error if the state is not what it was decided on.
type change func(st *state) error

// Load implements cas.Store.
func (s *store) Load(ctx context.Context, stripe int) (cas.Loaded, error) {
	snap, err := s.reads.join(ctx, &call{})
	if err != nil {
		return cas.Loaded{}, err
	}
	l := s.loaded(snap, stripe)
	if l.Votes && s.joined() { // one that only looks may have no right to write
		l.Unfit = s.proof.of(ctx, snap)
	}
	return l, nil
}

func (s *store) loaded(snap *snapshot, stripe int) cas.Loaded {
	l := cas.Loaded{Clock: snap.clock, Server: s.here(), State: snap, Votes: snap.votes()}
	if st := snap.state; st != nil {
		l.Record, l.Server, l.Terms = st.record(stripe), st.Memory, st.Terms
	}
	return l
}

// Save implements cas.Store. The write compares the whole object, and with that the mark.
func (s *store) Save(ctx context.Context, stripe int, r cas.Record, over cas.Loaded) (cas.Loaded, error) {
	was := over.State.(*snapshot)
	if was.state == nil || was.copied() {
		return over, node.NotSent(errOut)
	}
	snap, err := s.writes.join(ctx, &call{over: was, change: func(st *state) error {
		now := st.record(stripe)
		if st.Memory != was.state.Memory || st.Admitted != was.state.Admitted ||
			now.Register != over.Register || !bytes.Equal(now.Leases, over.Leases) {
			return cas.ErrConflict
		}
		st.set(stripe, r)
		return nil
	}})
	if err != nil {
		return over, err
	}
	over.Record, over.Clock, over.Close, over.State = r, 0, nil, snap
	return over, nil
}

// errOut is of a release that a store which is out does not carry out: its leases are void.
var errOut = errors.New("nothing is held there: the object is not there, or was copied from elsewhere")

// readFor is what the lane of reads does.
func (s *store) readFor(ctx context.Context, calls []*call) {
	snap, err := s.read(ctx)
	for _, c := range calls {
		c.snap, c.err = snap, cmp.Or(err, ctx.Err()) // an answer that ends with the request may be cut off
	}
}

// writeFor is what the lane of writes does: one write for all changes that fit together. A change
// of something else than what is there is a conflict, and so is each of a write that was refused.
func (s *store) writeFor(ctx context.Context, calls []*call) {
	base := s.known()
	for _, c := range calls {
		if !base.newerThan(c.over) {
			base = c.over
		}
	}
	if !base.fresh() {
		for _, c := range calls {
			c.err = node.NotSent(cas.ErrConflict)
		}
		return
	}
	st := base.state.clone()
	if !st.Admitted && st.Since == 0 {
		st.Since = base.since()
	}
	if age, done := s.proof.done(); done {
		st.prove(s.endpoint, base.now()-age)
	}
	var in []*call
	for _, c := range calls {
		if c.err = c.change(st); c.err != nil {
			c.err = node.NotSent(c.err)
			continue
		}
		in = append(in, c)
	}
	if len(in) == 0 {
		return
	}
	snap, err := s.write(ctx, base, st)
	if errors.Is(err, cas.ErrConflict) {
		// A proxy may have sent it twice, and the second one was refused.
		switch now, failed := s.read(ctx); {
		case failed != nil:
			err = fmt.Errorf("the write was refused, and may have been carried out before: %v", failed)
		case now.is(st):
			snap, err = now, nil
		}
	}
	if err == nil {
		s.learn(snap)
	}
	for _, c := range in {
		c.snap, c.err = snap, cmp.Or(err, ctx.Err())
	}
}

// List implements cas.Store, by one request.
func (s *store) List(ctx context.Context, yield func(stripe int, l cas.Loaded) bool) error {
	snap, err := s.reads.join(ctx, &call{})
	if err != nil || snap.state == nil {
		return err
	}
	for _, stripe := range slices.Sorted(maps.Keys(snap.state.Leases)) {
		if !yield(stripe, s.loaded(snap, stripe)) {
			return nil
		}
	}
	return nil
}

// Registers implements cas.Store. They are of one moment.
func (s *store) Registers(ctx context.Context) (node.Registers, error) {
	snap, err := s.reads.join(ctx, &call{})
	if err != nil {
		return node.Registers{}, err
	}
	f := snap.facts(s.here())
	r := node.Registers{Server: f.Server, Memory: f.Memory, Admitted: f.Votes, Empty: f.Empty, MaxTTL: f.Terms.MaxTTL,
		Members: f.Terms.Members}
	if snap.state != nil {
		r.Tokens = snap.state.Registers
	}
	return r, nil
}

// Facts implements admit.Store.
func (s *store) Facts(ctx context.Context) (admit.Facts, error) {
	snap, err := s.reads.join(ctx, &call{})
	if err != nil {
		return admit.Facts{}, explained(err)
	}
	return snap.facts(s.here()), nil
}

// Note implements admit.Store. The leases go in the same step.
func (s *store) Note(ctx context.Context, f admit.Facts) (bool, error) {
	return s.instead(ctx, f, func(st *state) {
		st.Memory, st.Admitted, st.Since, st.Cause, st.Empty = rand.Text(), false, 0, f.Cause, nil
		clear(st.Leases)
	})
}

// Mark implements admit.Store. No store is admitted that was not seen to keep conditions, now: it
// may be another one than before.
func (s *store) Mark(ctx context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	if err := s.proof.anew(ctx); err != nil {
		return false, explained(err)
	}
	return s.instead(ctx, f, func(st *state) {
		if r := s.raise.Load(); r != nil && r.over == f.State.(*snapshot) {
			for stripe, token := range r.to {
				st.Registers[stripe] = max(st.Registers[stripe], token)
			}
		}
		if st.Terms == (admit.Terms{}) {
			st.Terms = own
		}
		st.Admitted, st.Since, st.Cause, st.Empty, st.Proved = true, 0, node.Present, empty, nil
		st.prove(s.endpoint, f.State.(*snapshot).now())
		clear(st.Leases)
	})
}

// instead writes over exactly what was looked at.
func (s *store) instead(ctx context.Context, f admit.Facts, to func(st *state)) (bool, error) {
	was := f.State.(*snapshot)
	st := &state{}
	if was.state != nil {
		st = was.state
	}
	st = st.clone()
	to(st)
	_, err := s.write(ctx, was, st)
	if errors.Is(err, cas.ErrConflict) {
		return false, nil
	}
	return err == nil, explained(err)
}

// Raise implements admit.Store. The registers are raised by the write that sets the mark. With a
// write of their own, the mark would be over what is no more, and the store be looked at again. As
// long as the group is in use, the other nodes' registers are larger by then.
func (s *store) Raise(_ context.Context, f admit.Facts, tokens map[int]fence.Token) error {
	s.raise.Store(&raise{f.State.(*snapshot), tokens})
	return nil
}
