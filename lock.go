package fenlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// Lock is a lock that is, or was, held. It extends itself until it is released, lost or held for
// its maximum (Config.MaxHold, WithMaxHold). It is not bound to a goroutine, and safe for
// concurrent use.
type Lock struct {
	locker *Locker
	name   string
	caller context.Context // of Acquire
	base   context.Context // the caller's values, without its end

	// ctx is set before the caller is told, if the lock was acquired. It is work, which tells of
	// the lock.
	ctx    context.Context
	work   lockContext
	cancel context.CancelCauseFunc
	// done has room for two values. One tells the caller that the acquisition is over. Once the
	// lock is held, one tells the caller of Release that the release is.
	done    chan struct{}
	failure shell.Failure // of the acquisition, and then of the release
	// reasons has the newest reason to wait; nil if it is not wanted.
	reasons chan *shell.Failure

	watched *watched // for the Observer

	acquisition shell.Acquisition

	// with is held, extended and released along. It is the lock of the same name on the group that
	// the name leaves (pair.go). For a slot it is the name that it shares with others (slots.go).
	// Mostly nil.
	with *Lock

	adopted node.Holder // see Locker.Adopt; empty if it was not
}

// Format prints the name and nothing else, in particular not the identity of the
// holder, whatever the verb.
func (k *Lock) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "lock(%q)", k.name) }

// Name returns what is locked.
func (k *Lock) Name() string { return k.name }

// Token returns the fencing token of this acquisition: larger than that of every
// acquisition of the same name that finished before this one began. Pass it
// to the resource with each write, and let the resource refuse a smaller one
// than it has seen (package fence).
func (k *Lock) Token() fence.Token {
	token := k.acquisition.Lock().Token()
	if k.with != nil && k.with.name == k.name {
		token = max(token, k.with.Token())
	}
	return token
}

// Context returns a context that is cancelled when the lock is released, lost or out of validity,
// whichever comes first. That is before the lease can have ended on a majority of nodes.
// context.Cause then matches ErrReleased, ErrLost, ErrMaxHold or ErrExported. It has the values of
// the context that the lock was acquired with, but not its end. To acquire the same name with it is
// ErrNested, while the lock is held.
//
// A process that is paused learns of it late, as from every timer. What it
// writes then is for the token to stop.
func (k *Lock) Context() context.Context { return k.ctx }

// keepsOut implements holder.
func (k *Lock) keepsOut(w request, work bool) bool {
	if k.with != nil && k.with.keepsOut(w, work) {
		return true
	}
	lock, own := k.acquisition.Lock(), k.acquisition.Terms()
	switch {
	case k.name != w.name || !k.locker.places.same(w.at) || lock.Remaining() == 0:
		return false
	case !w.terms.Shared || !lock.Shared(), (w.terms.Slots > 0) != (own.Slots > 0):
		return true
	case own.Slots > 0:
		return false // another slot, or another number of them, which is an error of its own
	}
	// A reader may join its own lock, if no writer waits. Do and Locker.Lock have never allowed it.
	return work && k.locker.places == w.at
}

// Remaining returns the validity left: for how long the lock is held even if no
// further extension succeeds. 0 once it is released or lost. Time during which
// the machine was suspended counts on Linux.
func (k *Lock) Remaining() time.Duration {
	left := k.acquisition.Lock().Remaining()
	if k.with != nil {
		left = min(left, k.with.Remaining())
	}
	return left
}

// Extend renews the lock now, without waiting for the next automatic extension; one that is under
// way ends first. Nil means that the validity was renewed, and that no other client held the lock
// from its acquisition up to this call.
//
// An error that matches ErrNoQuorum means that the extension failed but the
// lock is still held for Remaining. ErrLost, ErrMaxHold, ErrReleased and ErrExported mean
// that it is not held any more. If ctx ends first, the extension goes on
// without its caller.
func (k *Lock) Extend(ctx context.Context) error {
	x, err := k.startExtend(0)
	if err != nil {
		return err
	}
	if k.with == nil {
		return k.awaitExtension(ctx, x)
	}
	y, err := k.with.startExtend(0)
	if err == nil {
		err = k.with.awaitExtension(ctx, y)
	}
	return errors.Join(k.awaitExtension(ctx, x), err)
}

// startExtend begins an extension, and has later acquisitions get a token that is larger than
// raise, on this lock's own group. Each has its awaitExtension.
func (k *Lock) startExtend(raise fence.Token) (*extension, error) {
	if k.locker.client.Closed() {
		return nil, ErrClosed
	}
	x := &extension{done: make(chan struct{})}
	k.acquisition.Lock().Raise(raise, x)
	return x, nil
}

// awaitExtension returns what an extension has come to that was begun.
func (k *Lock) awaitExtension(ctx context.Context, x *extension) error {
	select {
	case <-x.done:
		return k.errorOf(&x.failure)
	case <-ctx.Done():
		k.acquisition.Lock().Withdraw(x)
	}
	select {
	case <-x.done: // by what ended ctx, if that is the lock's
		return k.errorOf(&x.failure)
	default:
		return fmt.Errorf("fenlock: extend %q: %w", k.name, ctx.Err())
	}
}

// extension is a call of Extend. It implements shell.Extended.
type extension struct {
	done    chan struct{}
	failure shell.Failure
}

func (x *extension) Extended(f shell.Failure) {
	x.failure = f
	close(x.done)
}

// Release gives the lock back, on all nodes; or, before the end of WithMinHold, leaves it there
// until then. If ctx ends first, Release returns ctx's error, and the release goes on. Answers are
// waited for during Config.NodeTimeout at most, or two where a node has not answered the acquire or
// an extension yet. While the nodes are behind with their work, each of these is up to three tenths
// of the TTL. Locker.Close waits as long.
//
// Nil means that a majority of nodes is free of the lease, and that the lock was held up to this
// call, by its validity. ErrLost or ErrMaxHold: it was not held any more; leases that were left are
// removed. ErrReleased: it was released before. ErrExported: it is another process's, or is not
// held any more; nothing was sent. ErrNoQuorum: too few nodes answered; the leases there end by
// themselves within a TTL, or at the end of WithMinHold if that is later.
func (k *Lock) Release(ctx context.Context) error {
	if k.with != nil {
		return k.startRelease(true)(ctx)
	}
	why, before := k.acquisition.Lock().Release(true)
	return k.awaitRelease(ctx, why, before)
}

// startRelease begins a release, and returns what awaits it.
func (k *Lock) startRelease(keep bool) (await func(ctx context.Context) error) {
	why, before := k.acquisition.Lock().Release(keep)
	if k.with == nil || before {
		return func(ctx context.Context) error { return k.awaitRelease(ctx, why, before) }
	}
	whyWith, beforeWith := k.with.acquisition.Lock().Release(keep)
	return func(ctx context.Context) (err error) {
		with := func() error { return k.with.awaitRelease(ctx, whyWith, false) }
		observed(func() { // what comes of the other lock has to be told all the same
			if !beforeWith {
				with()
			}
		}, func() { err = k.awaitRelease(ctx, why, false) })
		if !beforeWith {
			return errors.Join(err, with())
		}
		// It was released when one of the two was lost, see holdWith: if that was this one, it was
		// not told yet.
		if lost := context.Cause(k.with.ctx); !errors.Is(lost, ErrReleased) {
			err = errors.Join(err, lost)
		}
		return err
	}
}

// holdWith makes this lock, which is held, one with another that is: the context of this one ends
// with the first of the two. If it is lost, the other lock is released at once, because that has no
// maximum hold of its own. A caller who does not release this one keeps it to its maximum.
func (k *Lock) holdWith(with *Lock) {
	k.with = with
	context.AfterFunc(with.ctx, func() { k.cancel(context.Cause(with.ctx)) })
	context.AfterFunc(k.ctx, func() {
		if !errors.Is(context.Cause(k.ctx), ErrReleased) {
			with.Release(context.Background())
		}
	})
}

// awaitRelease returns what a release has come to that was begun.
func (k *Lock) awaitRelease(ctx context.Context, why shell.Failure, before bool) error {
	switch {
	case before && why.Failed():
		return k.errorOf(&why)
	case before:
		return fmt.Errorf("%w before: %q", ErrReleased, k.name)
	}
	lost := k.errorOf(&why)
	select {
	case <-k.done:
		k.watched.drain()
	case <-ctx.Done():
		if k.watched != nil {
			go k.drainWhenFreed()
		}
		return errors.Join(lost, fmt.Errorf("fenlock: release %q: %w", k.name, ctx.Err()))
	}
	if lost != nil {
		return lost
	}
	return k.errorOf(&k.failure)
}

// drainWhenFreed is for a release whose caller does not wait for it.
func (k *Lock) drainWhenFreed() {
	<-k.done
	k.watched.drain()
}

// lengthen has leases stay for as long as their terms say, once all locks are held: an attempt that
// fails must not leave such ones. The time counts from the request for the last lock. If that does
// not work none is held.
func lengthen(ctx context.Context, locks ...*Lock) error {
	atLeast := locks[0].acquisition.Terms().AtLeast
	if atLeast <= 0 {
		return nil
	}
	each := locks
	for _, k := range locks {
		if k.with != nil {
			each = append(slices.Clip(each), k.with)
		}
	}
	from := each[0].acquisition.Lock().Begun()
	for _, k := range each[1:] {
		from = max(from, k.acquisition.Lock().Begun())
	}
	begun := make([]*extension, len(each))
	for i, k := range each {
		l := k.acquisition.Lock()
		l.Keep(from)
		if !l.Given() && from+atLeast <= l.Begun()+k.acquisition.Terms().TTL {
			continue // it has been leased for so long
		}
		var err error
		if begun[i], err = k.startExtend(0); err != nil {
			giveUp(ctx, locks...)
			return err
		}
	}
	for i, k := range each {
		if begun[i] == nil {
			continue
		}
		if err := k.awaitExtension(ctx, begun[i]); err != nil {
			giveUp(ctx, locks...)
			return err
		}
	}
	return nil
}

// lengthened returns a lock that was acquired, with its leases lengthened, or an error.
func lengthened(ctx context.Context, k *Lock, err error) (*Lock, error) {
	if err == nil {
		err = lengthen(ctx, k)
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// giveUp releases locks that no caller was told of, whatever their terms say, and waits for that
// until ctx is done. What does not work ends by itself.
func giveUp(ctx context.Context, locks ...*Lock) { releaseAll(ctx, locks, false) }

// releaseAll releases locks at once, and returns what went wrong.
func releaseAll(ctx context.Context, locks []*Lock, keep bool) error {
	errs := make([]error, len(locks))
	begun := make([]func(context.Context) error, len(locks))
	for i, k := range locks {
		begun[i] = k.startRelease(keep)
	}
	awaited := 0
	defer func() { // an observer may panic: what comes of the others has to be told all the same
		if awaited < len(begun) {
			for _, await := range begun[awaited+1:] {
				go await(ctx)
			}
		}
	}()
	for ; awaited < len(begun); awaited++ {
		errs[awaited] = begun[awaited](ctx)
	}
	return errors.Join(errs...)
}

// owner is a Lock as the shell's callbacks see it.
type owner Lock

// Waiting implements shell.Owner. The caller's goroutine tells the observer: this one
// may be an engine's, for which others wait.
func (o *owner) Waiting(why *shell.Failure) {
	o.watched.waits()
	if o.reasons == nil {
		return
	}
	for {
		select {
		case o.reasons <- why:
			return
		default:
		}
		select {
		case <-o.reasons: // it was not received, and it is not true any more
		default:
		}
	}
}

// Held implements shell.Owner.
func (o *owner) Held(token fence.Token, given bool) {
	o.work.held = held{lock: (*Lock)(o), outer: o.base}
	o.work.Context, o.cancel = context.WithCancelCause(o.base)
	o.ctx = &o.work
	o.watched.acquired(token, given, nil)
}

// Extended implements shell.Owner.
func (o *owner) Extended(left time.Duration, why shell.Failure) {
	if o.watched != nil {
		o.watched.extended(left, (*Lock)(o).errorOf(&why))
	}
}

// Done implements shell.Owner.
func (o *owner) Done(f shell.Failure) {
	o.failure = f
	o.done <- struct{}{}
}

// Ended implements shell.Owner. A loss is logged after the holder was told, and without the shell's
// mutex. If the log blocks, no client may go on writing without a lock because of it.
func (o *owner) Ended(why shell.Failure, left time.Duration) {
	k := (*Lock)(o)
	err := k.errorOf(&why)
	if why.Reason != core.LetGo { // otherwise the release is to be over first: it would take the next one's leases
		k.notAdopted()
	}
	k.cancel(err)
	if why.Reason == core.LetGo || why.Reason == core.Exported {
		err = nil
	} else {
		go k.lost(err)
	}
	k.watched.end(err, left)
}

// Freed implements shell.Owner.
func (o *owner) Freed(f shell.Failure) {
	k := (*Lock)(o)
	k.notAdopted()
	err, cause := k.errorOf(&f), context.Cause(k.ctx)
	switch {
	case !errors.Is(cause, ErrReleased):
		err = cause // as Release has it, whatever came of the leases that were left
	case f.Reason == core.Taken: // it was lost before the release, which found that out
		go k.lost(err)
		k.watched.end(err, 0)
	}
	k.watched.freed(err)
	o.Done(f)
}

// notAdopted lets the Locker adopt the lock again.
func (k *Lock) notAdopted() {
	if k.adopted != "" {
		k.locker.adopted.CompareAndDelete(k.adopted, k)
	}
}

func (k *Lock) lost(err error) {
	k.locker.config.Logger.Warn("fenlock: not held any more", "name", k.name, "error", err)
}

// errorOf makes the error of a failure, nil of none.
func (k *Lock) errorOf(f *shell.Failure) error {
	switch {
	case f.Closed:
		return ErrClosed
	case !f.Failed():
		return nil
	}
	switch f.Reason {
	case core.Contended:
		if f.Slots > 0 {
			return fmt.Errorf("%w: %q has %d slots for the caller and %d for %s: all clients have to use one number",
				ErrSlots, k.name, k.acquisition.Terms().Slots, f.Slots, cmp.Or(f.HeldBy, "another client"))
		}
		return &HeldError{Name: k.name, HeldBy: f.HeldBy, RetryAfter: f.RetryAfter, Ahead: f.Ahead}
	case core.Cancelled:
		if f.Last == nil {
			return gaveUp(k.caller, k.name, nil)
		}
		return gaveUp(k.caller, k.name, k.errorOf(f.Last))
	case core.Expired, core.Taken:
		// The nodes' errors are text here: a lost lock must not match ErrNoQuorum, which
		// means that nothing is known.
		why := "its validity ran out before an extension succeeded"
		switch {
		case f.Reason == core.Taken && len(k.locker.config.Nodes) == 1:
			why = "its lease is gone"
		case f.Reason == core.Taken:
			why = "so many nodes have lost its lease that the others are no majority"
		}
		return fmt.Errorf("%w: %q: %s%s", ErrLost, k.name, why, listed(k.nodeErrors(f)))
	case core.HeldTooLong:
		return fmt.Errorf("%w: %q: %v", ErrMaxHold, k.name, k.acquisition.Terms().MaxHold)
	case core.LetGo:
		return releasedError{k}
	case core.Exported:
		return exportedError{k}
	}
	n, op := len(k.locker.config.Nodes), f.Op.String()
	if f.Op == core.Extend && k.ctx == nil {
		op = "adopt" // nothing else is extended before it is held
	}
	return &QuorumError{Op: op, Name: k.name, Nodes: n, Need: node.Quorum(n), Late: f.Reason == core.TooLate,
		Errors: k.nodeErrors(f)}
}

func (k *Lock) nodeErrors(f *shell.Failure) (all []NodeError) {
	for _, n := range f.Nodes {
		all = append(all, NodeError{Node: k.locker.config.Nodes[n.Node].String(), Err: n.Err})
	}
	return all
}

// gaveUp is the error for a context that ended, joined with the last reason.
func gaveUp(ctx context.Context, name string, last error) error {
	why := whyEnded(ctx)
	if last == nil {
		return fmt.Errorf("fenlock: acquire %q: %w", name, why)
	}
	return fmt.Errorf("fenlock: gave up waiting for %q: %w: %w", name, why, last)
}

// whyEnded is the error of a context that has ended, with its cause.
func whyEnded(ctx context.Context) error {
	why := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, why) {
		why = fmt.Errorf("%w (%w)", why, cause)
	}
	return why
}

// releasedError is ErrReleased with the name: one for each lock, so it is not formatted before it
// is read.
type releasedError struct{ lock *Lock }

func (e releasedError) Error() string { return fmt.Sprintf("%v: %q", ErrReleased, e.lock.name) }

func (e releasedError) Unwrap() error { return ErrReleased }

// exportedError is ErrExported in the same way.
type exportedError struct{ lock *Lock }

func (e exportedError) Error() string { return fmt.Sprintf("%v: %q", ErrExported, e.lock.name) }

func (e exportedError) Unwrap() error { return ErrExported }
