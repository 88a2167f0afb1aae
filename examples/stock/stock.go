// Package stock is an example of code that locks. Its tests show how such code is
// tested; docs/testing.md explains them.
package stock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// Clerk takes items from a store that many processes share.
type Clerk struct {
	Locker *fenlock.Locker
	Store  *Store
}

// Take takes n of an item. It reads, counts and writes, so that two of them at the
// same time would lose one of the two: hence the lock.
func (c *Clerk) Take(ctx context.Context, item string, n int) error {
	return c.Locker.Do(ctx, "stock/"+item, func(ctx context.Context, token fence.Token) error {
		left, err := c.Store.Read(ctx, item)
		if err != nil {
			return err
		}
		if left < n {
			return fmt.Errorf("%d of %s are left, not %d", left, item, n)
		}
		return c.Store.Write(ctx, token, item, left-n)
	})
}

// Store stands for a database: it is slow, and it has a guard that refuses the writes
// of those who lost their lock.
type Store struct {
	Delay time.Duration // of each read and each write

	guard fence.Guard
	mu    sync.Mutex
	left  map[string]int
}

// NewStore returns a store with what is in it.
func NewStore(delay time.Duration, left map[string]int) *Store {
	return &Store{Delay: delay, left: left}
}

// Read returns how many of an item are left.
func (s *Store) Read(ctx context.Context, item string) (int, error) {
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left[item], nil
}

// Write sets how many of an item are left. The error matches fence.ErrStale if a holder with a
// newer token was here before.
func (s *Store) Write(ctx context.Context, token fence.Token, item string, left int) error {
	return s.guard.Do(ctx, item, token, func() error {
		if err := s.wait(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.left[item] = left
		return nil
	})
}

func (s *Store) wait(ctx context.Context) error {
	select {
	case <-time.After(s.Delay):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
