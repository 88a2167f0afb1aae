package fenlock

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Locks are locks of several names that are held together, each with a token of its own.
// Safe for concurrent use.
type Locks struct {
	locks  []*Lock // by name
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// newLocks ends the context of all with the first that ends.
func newLocks(values context.Context, locks []*Lock) *Locks {
	s := &Locks{locks: locks}
	ctx := context.WithoutCancel(values)
	for _, k := range locks {
		ctx = holding(ctx, k, false)
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	for _, k := range locks {
		context.AfterFunc(k.Context(), func() { s.cancel(context.Cause(k.Context())) })
	}
	return s
}

// Names returns the names, in order, each once.
func (s *Locks) Names() (names []string) {
	for _, k := range s.locks {
		names = append(names, k.name)
	}
	return names
}

// Lock returns the lock of a name, nil if it is not one of them. To release it alone ends the
// Context of all.
func (s *Locks) Lock(name string) *Lock {
	i, found := slices.BinarySearchFunc(s.locks, name,
		func(k *Lock, name string) int { return strings.Compare(k.name, name) })
	if !found {
		return nil
	}
	return s.locks[i]
}

// Token returns the fencing token of a name, 0, which is none, if it is not one of them.
func (s *Locks) Token(name string) fence.Token {
	if k := s.Lock(name); k != nil {
		return k.Token()
	}
	return 0
}

// Context is Lock.Context of all: it ends with the first of the locks that ends, and
// context.Cause tells why that one did.
func (s *Locks) Context() context.Context { return s.ctx }

// Remaining returns for how long all of them are held even if no further extension succeeds.
func (s *Locks) Remaining() time.Duration {
	left := s.locks[0].Remaining()
	for _, k := range s.locks[1:] {
		left = min(left, k.Remaining())
	}
	return left
}

// Release gives all of them back, at once. The errors are those of Lock.Release, joined.
func (s *Locks) Release(ctx context.Context) error {
	err := releaseAll(ctx, s.locks, true)
	s.cancel(context.Cause(s.locks[0].Context())) // before it is heard of, as Lock.Release does
	return err
}
