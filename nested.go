package fenlock

import (
	"context"
	"fmt"
	"slices"

	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// held is a lock that belongs to a context: its owner holds it, or has held it.
type held struct {
	lock  holder
	work  bool            // the context is that of a Do, or of Locker.Lock
	outer context.Context // may tell of more
}

// holder is a lock, or two that are held as one.
type holder interface {
	// keepsOut reports whether one of them is held, and keeps out what is requested.
	keepsOut(w request, work bool) bool
}

// request is a lock that is about to be acquired.
type request struct {
	at    *places
	name  string
	terms shell.Terms
}

type heldKey struct{}

func heldBy(ctx context.Context) *held {
	h, _ := ctx.Value(heldKey{}).(*held)
	return h
}

// lockContext is a context that tells of a lock.
type lockContext struct {
	context.Context
	held held
}

func (c *lockContext) Value(key any) any {
	if key == (heldKey{}) {
		return &c.held
	}
	return c.Context.Value(key)
}

func (c *lockContext) String() string { return fmt.Sprintf("%v.Held(%v)", c.Context, c.held.lock) }

// holding returns a context that tells of a lock.
func holding(ctx context.Context, lock holder, work bool) context.Context {
	return &lockContext{ctx, held{lock, work, ctx}}
}

// checkNested refuses to wait for a lock that the owner of the context holds, through the same
// Locker or another one.
func checkNested(ctx context.Context, at *places, name string, terms shell.Terms) error {
	for h := heldBy(ctx); h != nil; h = heldBy(h.outer) {
		if h.lock.keepsOut(request{at, name, terms}, h.work) {
			return nestedError{name}
		}
	}
	return nil
}

// places are the nodes of one Locker, as far as a process can tell nodes from others.
type places []any

func placesOf(nodes []node.Node) *places {
	var all places
	for _, n := range nodes {
		place := n.Engine()
		if located, ok := place.(node.Located); ok {
			place = located.Location()
		}
		all = append(all, place)
	}
	return &all
}

// same reports whether two Lockers are known to have the same nodes. It is sure of it: otherwise an
// acquisition would fail that only had to wait.
func (p *places) same(other *places) bool {
	missing := func(place any) bool { return !slices.Contains(*other, place) }
	return p == other || len(*p) == len(*other) && !slices.ContainsFunc(*p, missing)
}

// nestedError is ErrNested, and ErrHeld, with the name.
type nestedError struct{ name string }

func (e nestedError) Error() string {
	return fmt.Sprintf("fenlock: %q is held by the caller itself: its context is that of the lock, or of the Do, that holds it, and a lock is not reentrant", e.name)
}

func (e nestedError) Is(target error) bool { return target == ErrNested || target == ErrHeld }
