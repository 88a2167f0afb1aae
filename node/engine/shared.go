package engine

import (
	"context"
	"sync"
)

// Shared is something that takes a while, and is done once for all that want it meanwhile: to
// connect, or to look at a store. It goes on when the request that began it has given up. The zero
// Shared is ready, and safe for concurrent use.
type Shared[T any] struct {
	mu  sync.Mutex
	now *Underway[T]
}

// Underway is what a Shared is doing, or has done.
type Underway[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// Begin begins to do it, in a goroutine of a life, unless it is under way. If the life has ended
// it fails with ErrClosed.
func (s *Shared[T]) Begin(life *Lifetime, do func() (T, error)) *Underway[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil {
		return s.now
	}
	u := &Underway[T]{done: make(chan struct{})}
	err := life.Spawn(func() {
		u.value, u.err = do()
		s.mu.Lock()
		s.now = nil
		s.mu.Unlock()
		close(u.done)
	})
	if err != nil {
		u.err = err
		close(u.done)
		return u
	}
	s.now = u
	return u
}

// Wait returns what came of it. If ctx is done before, over is false, and err is that of ctx.
func (u *Underway[T]) Wait(ctx context.Context) (value T, over bool, err error) {
	select {
	case <-u.done:
		return u.value, true, u.err
	case <-ctx.Done():
		return value, false, ctx.Err()
	}
}
