package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrStale says that a write came with an older token than the resource has
// seen: the lock that the token belongs to was lost, and somebody else has
// written, or tried to, since. Nothing was written. Retrying with the same token
// cannot succeed; take the lock again and start over from what is there now. The
// details are in a *StaleError.
var ErrStale = errors.New("fence: stale token")

// StaleError is the error of a write that was refused. It matches ErrStale.
type StaleError struct {
	Resource string
	Token    Token // the one that was refused
	Newest   Token // the largest one seen by then, larger than Token
}

// Error names the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%v for %q: %d is older than %d", ErrStale, e.Resource, uint64(e.Token), uint64(e.Newest))
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// Guard lets writes to a resource pass in the order of their tokens only: what
// was written under a token is never overwritten under a smaller one. The zero
// value is ready for use and has seen no token. A Guard is safe for concurrent
// use and must not be copied.
//
// It remembers in memory. That protects what lives as long as the process does
// and is written through this one Guard. For data that outlives the process, or
// that several processes write, a Guard that starts empty would let an old token
// in: keep the token beside the data, as package fencesql does.
//
// It keeps one small entry for every resource it was asked to write, until the
// Guard itself is dropped: to forget a resource is to accept its old tokens
// again. Do not use it with names that an attacker can invent.
type Guard struct {
	// Refused is told of each write that is refused for its token, before Do returns; ctx
	// is Do's. Nil: nobody is. It is set before the Guard is used, and must be safe for
	// concurrent use.
	Refused func(ctx context.Context, e *StaleError)

	mu        sync.Mutex // never held while a write runs or is waited for
	resources map[string]*entry
}

type entry struct {
	turn   chan struct{} // has one element while a write runs
	newest Token         // under Guard.mu; 0: none
}

// Do runs write and returns its error, unless a larger token than t has been
// seen for the resource: then it returns a *StaleError and write is not called.
// An equal token passes, since a holder may write more than once.
//
// While write runs no other write of the same resource does; checking first and
// writing afterwards would let a newer write slip in between and be overwritten.
// Other resources are not blocked. A write that calls Do for its own resource
// waits for itself.
//
// The token is recorded before write runs, and stays when write returns an error
// or panics: a write that failed may have written a part, and an older one on
// top of that part would be just what the Guard is there to prevent. The price
// is small: the older holder, which has lost its lock anyway, is refused even if
// nothing was written.
//
// Ctx bounds the wait for the resource's turn, not the write. If it is done
// before the write begins, the error matches ctx.Err() and context.Cause(ctx),
// write is not called and the token is not recorded. A t that is not valid gives
// ErrInvalidToken, with nothing changed either.
func (g *Guard) Do(ctx context.Context, resource string, t Token, write func() error) error {
	if !t.Valid() {
		return fmt.Errorf("%w: %d", ErrInvalidToken, uint64(t))
	}
	e := g.entry(resource)
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
	}
	// Asked again here, because a select with both ready picks at random.
	if ctx.Err() != nil {
		return waitError(ctx, resource)
	}
	if newest := g.raise(e, t); newest > t {
		stale := &StaleError{Resource: resource, Token: t, Newest: newest}
		if g.Refused != nil {
			g.Refused(ctx, stale)
		}
		return stale
	}
	return write()
}

// Newest returns the largest token seen for the resource, 0 if there was none.
// It does not wait for a write that is running; that write's token counts.
func (g *Guard) Newest(resource string) Token {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.resources[resource]; e != nil {
		return e.newest
	}
	return 0
}

func (g *Guard) entry(resource string) *entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.resources[resource]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		if g.resources == nil {
			g.resources = make(map[string]*entry)
		}
		g.resources[resource] = e
	}
	return e
}

// raise records t if it is the largest so far, and returns the largest.
func (g *Guard) raise(e *entry, t Token) Token {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.newest = max(e.newest, t)
	return e.newest
}

func waitError(ctx context.Context, resource string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("fence: waiting to write %q: %w", resource, cause)
	}
	return fmt.Errorf("fence: waiting to write %q: %w: %w", resource, err, cause)
}
