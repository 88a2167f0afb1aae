package library

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/leader"
)

// What clients use locks for. A new use of a Locker is one more line here, a method of Full, and a
// file of package worker.
const (
	Exclusive = "exclusive" // one name, alone
	Shared    = "shared"    // readers and writers of a name, and writers that let readers in
	Several   = "several"   // several names at a time, or none
	Slots     = "slots"     // slots of one name
	Lead      = "lead"      // leaders, and all clients follow them
)

// Locks are the uses.
var Locks = []string{Exclusive, Shared, Several, Slots, Lead}

// Full is a library whose locks can be used for all of it.
type Full interface {
	Locker

	// AcquireShared shares a name with others who want to.
	AcquireShared(ctx context.Context, name string, wait bool) (Lease, error)

	// AcquireAll takes all names or none. The leases are in the order of the names; release is
	// of all.
	AcquireAll(ctx context.Context, names []string) (leases []Lease, release func(ctx context.Context) error, err error)

	// Slots returns what takes one of so many slots of a name, and which.
	Slots(name string, n int) (func(ctx context.Context, wait bool) (int, Lease, error), error)

	// Lead runs work whenever this client leads, until work returns while it does. Work is given
	// what tells whether the validity has ended, by the clock and not by a timer.
	Lead(ctx context.Context, name string, work func(ctx context.Context, term fence.Token, leads func() bool) error) error

	// Follow returns the leader that this client believes in: 0 for none, or an error.
	Follow(ctx context.Context, name string) iter.Seq2[leader.Leader, error]
}

// Downgrader is a Lease that others may be let in to share.
type Downgrader interface {
	Downgrade(ctx context.Context) error
}

// Lost reports whether the cause of the end of work's context is that the lead was lost.
func Lost(cause error) bool { return errors.Is(cause, fenlock.ErrLost) }

func (l fenlockLocker) AcquireShared(ctx context.Context, name string, wait bool) (Lease, error) {
	if wait {
		return l.Locker.AcquireShared(ctx, name)
	}
	return l.Locker.TryAcquire(ctx, name, fenlock.WithShared())
}

func (l fenlockLocker) AcquireAll(ctx context.Context, names []string) (leases []Lease,
	release func(context.Context) error, err error) {
	locks, err := l.Locker.AcquireAll(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		leases = append(leases, locks.Lock(name))
	}
	return leases, locks.Release, nil
}

func (l fenlockLocker) Slots(name string, n int) (func(ctx context.Context, wait bool) (int, Lease, error), error) {
	slots, err := l.Locker.Slots(name, n)
	return func(ctx context.Context, wait bool) (int, Lease, error) {
		take := slots.TryAcquire
		if wait {
			take = slots.Acquire
		}
		slot, err := take(ctx)
		if err != nil {
			return 0, nil, err
		}
		return slot.Number(), slot, nil
	}, err
}

func (l fenlockLocker) Lead(ctx context.Context, name string,
	work func(context.Context, fence.Token, func() bool) error) error {
	return leader.Lead(ctx, l.Locker, name, func(ctx context.Context, term fence.Token) error {
		// A context that has ended: a client that does not lead any more asks no node.
		ended, end := context.WithCancel(ctx)
		end()
		return work(ctx, term, func() bool {
			_, err := l.TryAcquire(ended, name)
			return errors.Is(err, fenlock.ErrNested)
		})
	})
}

func (l fenlockLocker) Follow(ctx context.Context, name string) iter.Seq2[leader.Leader, error] {
	return leader.Follow(ctx, admin.Of(l.Locker), name)
}

func (l *brokenLocker) AcquireShared(ctx context.Context, name string, _ bool) (Lease, error) {
	return l.TryAcquire(ctx, name)
}

func (l *brokenLocker) AcquireAll(ctx context.Context, names []string) (leases []Lease,
	release func(context.Context) error, err error) {
	for _, name := range names {
		lease, err := l.TryAcquire(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		leases = append(leases, lease)
	}
	return leases, func(ctx context.Context) error {
		var errs []error
		for _, lease := range leases {
			errs = append(errs, lease.Release(ctx))
		}
		return errors.Join(errs...)
	}, nil
}

func (l *brokenLocker) Slots(name string, n int) (func(ctx context.Context, wait bool) (int, Lease, error), error) {
	return func(ctx context.Context, _ bool) (int, Lease, error) {
		lease, err := l.TryAcquire(ctx, name)
		return rand.IntN(n), lease, err
	}, nil
}

func (l *brokenLocker) Lead(ctx context.Context, name string,
	work func(context.Context, fence.Token, func() bool) error) error {
	lease, err := l.TryAcquire(ctx, name)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	l.leads.Store(name, lease.Token())
	return work(ctx, lease.Token(), func() bool { return true })
}

// Follow takes itself for the leader, and then another one that was there before.
func (l *brokenLocker) Follow(ctx context.Context, name string) iter.Seq2[leader.Leader, error] {
	return func(yield func(leader.Leader, error) bool) {
		for ctx.Err() == nil {
			if term, ok := l.leads.Load(name); ok {
				for _, before := range []fence.Token{0, 1} {
					if !yield(leader.Leader{Term: term.(fence.Token) - before, Label: l.label}, nil) {
						return
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(l.ttl / 10):
			}
		}
	}
}
