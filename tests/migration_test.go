package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// service is one that uses locks of some library: it takes one, extends it, and lets go. Its
// instances are changed over one by one (docs/migration.md).
type service struct {
	inside atomic.Int64    // how many instances are, which must be one
	served [2]atomic.Int64 // with the old library, and with fenlock
}

// locked is a lock that an instance holds.
type locked struct {
	extend, release func(ctx context.Context) error
}

// taking takes a lock of some library.
type taking = func(ctx context.Context) (locked, error)

// instance works until ctx is done, with whichever library is its own at the time. A client that
// finds the lock taken for long tries again.
func (s *service) instance(ctx context.Context, t *testing.T, own *atomic.Int64,
	take [2]taking) {
	for ctx.Err() == nil {
		which := own.Load()
		k, err := take[which](ctx)
		if err != nil {
			continue
		}
		if n := s.inside.Add(1); n != 1 {
			t.Errorf("%d have the lock at a time", n)
		}
		time.Sleep(rand.N(3 * time.Millisecond))
		if rand.IntN(3) == 0 {
			if err := k.extend(context.WithoutCancel(ctx)); err != nil {
				t.Errorf("library %d extends: %v", which, err)
			}
		}
		time.Sleep(rand.N(3 * time.Millisecond))
		s.inside.Add(-1)
		if err := k.release(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("library %d releases: %v", which, err)
		}
		s.served[which].Add(1)
		time.Sleep(rand.N(20 * time.Millisecond))
	}
}

// change has four instances work, changes them to fenlock one by one, and back.
func change(t *testing.T, old, fenlock taking) {
	const instances = 4
	var s service
	var own [instances]atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range instances {
		all.Go(func() {
			s.instance(ctx, t, &own[i], [2]taking{old, fenlock})
		})
	}
	defer all.Wait()
	defer cancel()
	// The clients that are there are served some more times.
	served := func(which ...int) {
		t.Helper()
		var before [2]int64
		for _, w := range which {
			before[w] = s.served[w].Load()
		}
		eventually(t, func() error {
			for _, w := range which {
				if s.served[w].Load() < before[w]+3 {
					return fmt.Errorf("nobody is served by %s", [2]string{"the old library", "fenlock"}[w])
				}
			}
			return nil
		})
	}
	served(0)
	for _, to := range []int64{1, 0} {
		for i := range instances {
			own[i].Store(to)
			if i < instances-1 {
				served(0, 1)
			}
		}
		served(int(to))
	}
	t.Logf("%d and %d times", s.served[0].Load(), s.served[1].Load())
}

// patient returns a client whose locks last for ten seconds. Many work at the same time here, and
// that is what is tested, not for how long they may be kept from it.
func patient(t *testing.T, servers []*testserver.Server, prefix string) *fenlock.Locker {
	t.Helper()
	for _, s := range servers {
		s.MarkAdmitted(prefix, fenlock.DefaultMaxTTL)
	}
	return newLockerWith(t, urls(servers), []valkeynode.Option{valkeynode.WithPrefix(prefix)}, func(c *fenlock.Config) {
		c.TTL, c.MaxTTL, c.NodeTimeout = fenlock.DefaultTTL, fenlock.DefaultMaxTTL, fenlock.DefaultTTL/5
	})
}

func takesFenlock(l *fenlock.Locker) taking {
	return func(ctx context.Context) (locked, error) {
		k, err := l.Acquire(ctx, "orders/42")
		if err != nil {
			return locked{}, err
		}
		return locked{k.Extend, k.Release}, nil
	}
}

// takes is a library that is asked until it has the lock.
func takes(l library) taking {
	return func(ctx context.Context) (locked, error) {
		k, err := l(ctx, "orders/42", time.Minute)
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			return locked{}, err
		}
		return locked{func(ctx context.Context) error { return k.extend(ctx, time.Minute) }, k.release}, nil
	}
}

// A service that locks with another library is changed to fenlock while it works, and back. It is
// an instance at a time, on the same servers and keys.
func TestMigration(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		for library, with := range libraries {
			t.Run(library, func(t *testing.T) {
				servers := testserver.Group(t, kind, with.servers)
				change(t, takes(with.on(t, servers)), takesFenlock(patient(t, servers, "")))
			})
		}
	})
}
