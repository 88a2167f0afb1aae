//go:build linux

package worker

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/history"
)

// set are tenures that began together, each of a name of its own.
type set struct {
	tenures []*tenure
	release func(ctx context.Context) error // of all
}

// severalRound is a round with some of the names at a time; one of four is with a single name.
func (u *user) severalRound(ctx context.Context) {
	if u.rng.IntN(4) == 0 {
		u.round(ctx)
		return
	}
	u.sleep(ctx, u.logUniform(100*time.Microsecond, 100*time.Millisecond))
	attempt, cancel := u.impatient(ctx, 3)
	s, ok := u.acquireSet(attempt, u.shuffled()[:2+u.rng.IntN(len(u.config.Names)-1)])
	cancel()
	if !ok {
		u.sleep(ctx, u.logUniform(time.Millisecond, 50*time.Millisecond))
		return
	}
	s.hold(ctx, u.logUniform(u.config.Shortest, u.config.Longest))
	var late []func()
	for _, t := range s.tenures {
		late = append(late, t.lateWrite())
	}
	if u.rng.IntN(2) == 0 {
		s.releaseAll(u.impatient(context.Background(), 6))
	} else {
		for _, i := range u.rng.Perm(len(s.tenures)) {
			s.tenures[i].release(u.impatient(context.Background(), 6))
		}
	}
	for _, write := range late {
		write()
	}
}

// allNames acquires all names at once, when nothing fails any more: all clients do, and none
// may wait for another one that waits for it.
func (u *user) allNames() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if s, ok := u.acquireSet(ctx, u.shuffled()); ok {
		for _, t := range s.tenures {
			t.count(ctx)
		}
		s.releaseAll(context.WithTimeout(context.Background(), patience))
	}
}

// acquireSet takes all names or none.
func (u *user) acquireSet(ctx context.Context, names []string) (s set, ok bool) {
	reckless := u.config.Reckless && u.rng.IntN(4) == 0
	for _, name := range names {
		t := u.begin(name)
		t.reckless = reckless
		t.note(history.Event{Kind: history.Acquire})
		s.tenures = append(s.tenures, t)
	}
	leases, release, err := u.full().AcquireAll(ctx, names)
	s.release = release
	for i, t := range s.tenures {
		var lease library.Lease
		if err == nil {
			lease = leases[i]
		}
		ok = t.got(lease, err)
	}
	return s, ok
}

// hold works under all locks until ctx ends, one of them does, or d has passed.
func (s set) hold(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, t := range s.tenures {
		if !t.reckless {
			defer context.AfterFunc(t.lease.Context(), cancel)()
		}
	}
	u := s.tenures[0].user
	for ctx.Err() == nil && s.tenures[u.rng.IntN(len(s.tenures))].step(ctx) {
		for _, t := range s.tenures {
			t.noteHolds()
		}
	}
	for _, t := range s.tenures {
		t.seesEnd()
	}
}

// releaseAll lets go of all at once. An error is about one of them, or several: that is not known.
func (s set) releaseAll(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	for _, t := range s.tenures {
		t.note(history.Event{Kind: history.Release})
	}
	err := s.release(ctx)
	for _, t := range s.tenures {
		t.noteError(history.Released, err)
	}
}
