package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrStale says that a write came with an older token than the resource has seen: the lock that the
// token belongs to was lost. Another holder has written, or tried to, since. Nothing was written.
// Retrying with the same token cannot succeed; take the lock again and start over from what is
// there now. The details are in a *StaleError.
var ErrStale = errors.New("fence: stale token")

// StaleError is the error of a write, or a read, that was refused. It matches ErrStale.
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

// Guard lets writes to a resource pass in the order of their tokens only. What was written under a
// token is never overwritten under a smaller one. The zero value is ready for use and has seen no
// token. A Guard is safe for concurrent use and must not be copied.
//
// It remembers in memory. That protects what lives as long as the process does and is written
// through this one Guard. For data that outlives the process, or that several processes write, a
// Guard that starts empty would let an old token in. Keep the token beside the data then, as
// package fencesql does.
//
// It keeps one small entry for every resource it was asked to write, until the Guard itself is
// dropped. To forget a resource is to accept its old tokens again. Do not use it with names that an
// attacker can invent.
type Guard struct {
	// Refused is told of each write that is refused for its token, before Do returns; ctx is Do's.
	// It may be nil. It is set before the Guard is used, and must be safe for concurrent use.
	Refused func(ctx context.Context, e *StaleError)

	mu        sync.Mutex // never held while a write runs or is waited for
	resources map[string]*entry
}

type entry struct {
	turn chan struct{} // has one element while a write runs, or a read begins
	// reads has one element for each read that runs; nil: there was none yet. Under Guard.mu,
	// and set with the turn.
	reads   chan struct{}
	written Token // the largest that a write came with, under Guard.mu; 0: none
	read    Token // the same of the reads
}

// maxReads is how many reads of one resource run at a time.
const maxReads = 64

// Do runs write and returns its error, unless a larger token than t has been seen for the resource,
// in Do or in Read. Then it returns a *StaleError, and write is not called. An equal token passes,
// since a holder may write more than once.
//
// While write runs no other write of the same resource does, and no read; checking first and
// writing afterwards would let a newer write slip in between and be overwritten.
// Other resources are not blocked. A write that calls Do for its own resource
// waits for itself.
//
// The token is recorded before write runs, and stays when write returns an error or panics. A write
// that failed may have written a part. An older write on top of that part is what the Guard is
// there to prevent. The price is small: the older holder, which has lost its lock anyway, is
// refused even if nothing was written.
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
	if !take(ctx, e.turn) {
		return waitError(ctx, "write", resource)
	}
	defer func() { <-e.turn }()
	g.mu.Lock()
	reads := e.reads
	g.mu.Unlock()
	for range cap(reads) { // until none runs any more; none begins without the turn
		if !take(ctx, reads) {
			return waitError(ctx, "write", resource)
		}
		defer func() { <-reads }()
	}
	if newest := g.raise(e, t, &e.written, &e.read); newest > t {
		return g.refuse(ctx, resource, t, newest)
	}
	return write()
}

// Read runs read and returns its error. Use it where readers share a name: their tokens may be
// larger or smaller than t. Only a larger token that a write came with refuses it, by a
// *StaleError. A write with a smaller token than t is refused from then on. So an earlier holder
// that was paused does not overwrite what is being read.
//
// Reads of one resource run at the same time, 64 at most, and not while a write does. A read that
// calls Read for its own resource may wait for a write that waits for it. A read that calls Do
// waits for itself. As with a sync.RWMutex, but until ctx is done. Everything else is as with Do.
func (g *Guard) Read(ctx context.Context, resource string, t Token, read func() error) error {
	if !t.Valid() {
		return fmt.Errorf("%w: %d", ErrInvalidToken, uint64(t))
	}
	e := g.entry(resource)
	if !take(ctx, e.turn) {
		return waitError(ctx, "read", resource)
	}
	g.mu.Lock()
	if e.reads == nil {
		e.reads = make(chan struct{}, maxReads)
	}
	reads := e.reads
	g.mu.Unlock()
	if !take(ctx, reads) {
		<-e.turn
		return waitError(ctx, "read", resource)
	}
	defer func() { <-reads }()
	newest := g.raise(e, t, &e.read, &e.written)
	<-e.turn
	if newest > t {
		return g.refuse(ctx, resource, t, newest)
	}
	return read()
}

// take puts an element into a channel, unless the context is done.
func take(ctx context.Context, room chan struct{}) bool {
	select {
	case room <- struct{}{}:
		// Asked again here, because a select with both ready picks at random.
		if ctx.Err() == nil {
			return true
		}
		<-room
	case <-ctx.Done():
	}
	return false
}

func (g *Guard) refuse(ctx context.Context, resource string, t, newest Token) error {
	stale := &StaleError{Resource: resource, Token: t, Newest: newest}
	if g.Refused != nil {
		g.Refused(ctx, stale)
	}
	return stale
}

// Newest returns the largest token seen for the resource, 0 if there was none.
// It does not wait for a write that is running; that write's token counts.
func (g *Guard) Newest(resource string) Token {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.resources[resource]; e != nil {
		return max(e.written, e.read)
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

// raise records t as one of its kind, unless it is smaller than what is returned. A write must not
// be older than any write or read, a read not older than any write.
func (g *Guard) raise(e *entry, t Token, kind, other *Token) (newest Token) {
	g.mu.Lock()
	defer g.mu.Unlock()
	newest = *other
	if kind == &e.written {
		newest = max(newest, *kind)
	}
	if newest <= t {
		*kind = max(*kind, t)
	}
	return newest
}

func waitError(ctx context.Context, what, resource string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("fence: waiting to %s %q: %w", what, resource, cause)
	}
	return fmt.Errorf("fence: waiting to %s %q: %w: %w", what, resource, err, cause)
}
