package fenlock

import (
	"context"

	"github.com/fenlock/fenlock/internal/shell"
)

// TryAcquire takes the lock if it is free, in one attempt: a round trip to all nodes at once,
// sometimes two. It never waits for another holder. If several clients come at the same moment,
// each may get some nodes, and none a majority. It then makes up to five further attempts, after
// random times of a few round trips each, for a second at most in all. So one of them gets it.
//
// The error matches ErrHeld, ErrNoQuorum, ErrInvalid, ErrClosed or ctx's own; in every case nothing
// is held, and what some nodes may have granted is being released. It also matches ErrNested if ctx
// is from a Do or a Lock that holds the lock, through any Locker of the same nodes.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, name, opts, l.client.TryAcquire)
}

// Acquire takes the lock, and waits until it is free, or until enough nodes answer, or until ctx is
// done. It returns at once if waiting cannot help: on an invalid name or option, and when too many
// nodes are misconfigured for a quorum. It also does, with ErrNested, if ctx is from a Do, or a
// Lock, that holds the lock.
//
// Waiters are in a queue, first come first served: in this process in memory, on the nodes if they
// are Queuers, by the nodes' clocks. One that does not take the lock within a second of its turn,
// because its process is stopped or cut off, is passed over; it keeps its place for when it is
// back. Nodes on Valkey and Redis give it the lock at the previous holder's release, for a second
// at first. It extends itself 31 ms later, see Lock.Remaining.
//
// Where nodes are not Queuers, or cannot notify (the Logger is told), waiters try
// again after a random delay, in no order. Without queues that is 100 ms at first, and half a
// second in the end. Beside others that are in the queue they may never find the lock free.
//
// When ctx is done, the waiter leaves the queues. The error matches ctx's own error and, if an
// attempt was made, the reason why the last one failed: ErrHeld or ErrNoQuorum.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, name, opts, l.client.Acquire)
}

// AcquireShared is Acquire with WithShared: for readers of what others write.
func (l *Locker) AcquireShared(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.Acquire(ctx, name, append(opts[:len(opts):len(opts)], WithShared())...)
}

// begin is Acquire or TryAcquire of the shell.
type begin func(*shell.Acquisition, context.Context, string, shell.Terms, shell.Owner)

// begin returns that of Acquire or, if the caller does not wait, of TryAcquire.
func (l *Locker) begin(waits bool) begin {
	if waits {
		return l.client.Acquire
	}
	return l.client.TryAcquire
}

// acquire blocks until an acquisition is over.
func (l *Locker) acquire(ctx context.Context, name string, opts []Option, begin begin) (*Lock, error) {
	o, err := l.config.optionsOf(opts)
	if err != nil {
		return nil, err
	}
	inTime, cancel := within(ctx, &o)
	defer cancel()
	k, err := l.acquireUntil(inTime, ctx, name, o.Terms, begin)
	return lengthened(inTime, k, err)
}

// acquireUntil is acquire until a context is done. The lock's own has the values of another.
func (l *Locker) acquireUntil(ctx, values context.Context, name string, terms shell.Terms, begin begin) (*Lock, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := checkNested(ctx, l.places, name, terms); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, gaveUp(ctx, name, nil)
	}
	k := l.start(ctx, values, name, terms, begin)
	if err := k.finish(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// start begins an acquisition. Each has its finish.
func (l *Locker) start(ctx, values context.Context, name string, terms shell.Terms, begin begin) *Lock {
	k := l.newLock(ctx, values, name)
	begin(&k.acquisition, k.base, name, terms, (*owner)(k))
	return k
}

// newLock makes what an acquisition is told to.
func (l *Locker) newLock(ctx, values context.Context, name string) *Lock {
	k := &Lock{locker: l, name: name, caller: ctx, base: values, done: make(chan struct{}, 2)}
	if values.Done() != nil {
		k.base = context.WithoutCancel(values)
	}
	if l.config.Observer.Waiting != nil {
		k.reasons = make(chan *shell.Failure, 1)
	}
	k.watched = l.events.watch(ctx, name)
	return k
}

// finish waits until the acquisition is over. With an error nothing is held.
func (k *Lock) finish(ctx context.Context) error {
	k.await(ctx)
	if k.failure.Failed() {
		err := k.errorOf(&k.failure)
		k.watched.acquired(0, false, err)
		k.watched.drain()
		return err
	}
	k.told()
	return nil
}

// await returns when the acquisition is over.
func (k *Lock) await(ctx context.Context) {
	ended := ctx.Done()
	for {
		select {
		case <-k.done:
			return
		case why := <-k.reasons:
			k.observe(why)
		case <-ended:
			k.acquisition.Cancel()
			ended = nil // it may have been acquired just before
		}
	}
}

// observe tells the observer why the caller waits. If that panics, the caller may
// recover, but will have no lock.
func (k *Lock) observe(why *shell.Failure) {
	observed(k.abandon, func() { k.locker.config.Observer.Waiting(k.caller, k.name, k.errorOf(why)) })
}

// told tells the observer that the lock is held. If that panics, no caller has the lock.
func (k *Lock) told() {
	if k.watched != nil {
		observed(func() { giveUp(k.base, k) }, k.watched.drain)
	}
}

// abandon ends an acquisition that no caller waits for.
func (k *Lock) abandon() {
	k.acquisition.Cancel()
	<-k.done
	if k.failure.Failed() {
		k.watched.acquired(0, false, k.errorOf(&k.failure))
		k.watched.drain()
		return
	}
	k.acquisition.Lock().Release(false)
	<-k.done
	k.watched.drain()
}

// Downgrade turns an exclusive lock into a shared one (WithShared), without giving it up in
// between. No client has it alone meanwhile, and the token stays. Shared waiters at the front of
// the queue come in. Nil means that a majority of the nodes has agreed; the others are asked with
// every extension. The errors are those of Extend, and ErrInvalid if a node is no node.Sharer.
// After any other error, others may share the name or not, while it is held.
//
// There is no way back: two holders that wanted it would wait for each other for good. Release it,
// acquire it again, and look whether what was read is still true.
func (k *Lock) Downgrade(ctx context.Context) error {
	if k.with != nil && k.with.name != k.name {
		return invalidf("the slot %q is not to be shared", k.name)
	}
	for l := k; l != nil; l = l.with {
		if err := l.locker.config.checkShared(); err != nil {
			return err
		}
	}
	for l := k; l != nil; l = l.with {
		l.acquisition.Lock().Share()
	}
	return k.Extend(ctx)
}
