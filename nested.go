package fenlock

import (
	"context"
	"fmt"
	"time"
)

// held is a lock that whoever has a context holds, and those that were held before it.
type held struct {
	by        any // the Locker
	name      string
	remaining func() time.Duration // 0: it is not held any more
	outer     *held
}

type heldKey struct{}

// holding returns a context whose owner holds a lock.
func holding(ctx context.Context, by any, name string, remaining func() time.Duration) context.Context {
	outer, _ := ctx.Value(heldKey{}).(*held)
	return context.WithValue(ctx, heldKey{}, &held{by, name, remaining, outer})
}

// checkNested refuses to wait for a lock that the owner of the context holds.
func checkNested(ctx context.Context, by any, name string) error {
	h, _ := ctx.Value(heldKey{}).(*held)
	for ; h != nil; h = h.outer {
		if h.by == by && h.name == name && h.remaining() > 0 {
			return nestedError{name}
		}
	}
	return nil
}

// nestedError is ErrNested, and ErrHeld, with the name.
type nestedError struct{ name string }

func (e nestedError) Error() string {
	return fmt.Sprintf("fenlock: %q is held by the caller itself: its context is from the Do, or the Lock, that holds it, and a lock is not reentrant", e.name)
}

func (e nestedError) Is(target error) bool { return target == ErrNested || target == ErrHeld }
