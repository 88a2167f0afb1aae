package fenlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/internal/shell"
)

// MaxNames is how many names AcquireAll and AcquireAny take.
const MaxNames = 100

// AcquireAll takes the locks of all names, or none. Their order does not matter, and a name that is
// there twice counts once. It asks for all of them at once: one round trip, if they are free.
// Otherwise it holds nothing and waits in the queue of a name that was refused. Once it has that
// name, it asks for the others again. Where that fails repeatedly, it takes them one after the
// other in the order of their names. If one of them takes longer than a TTL, it releases all. So
// two calls never wait for each other, whatever their names. A call that waits itself delays other
// clients by at most a TTL for each of its names.
//
// The errors are those of Acquire, about one of the names, or about the list: none, or
// more than MaxNames. Nothing is held then. All names are locks of one Locker: what
// is on different groups cannot be had together.
func (l *Locker) AcquireAll(ctx context.Context, names []string, opts ...Option) (*Locks, error) {
	return l.acquireAll(ctx, names, opts, func(inTime context.Context, w all) ([]*Lock, error) {
		return w.acquire(inTime)
	})
}

// acquireAll is AcquireAll by a function that takes the locks.
func (l *Locker) acquireAll(ctx context.Context, names []string, opts []Option,
	acquire func(inTime context.Context, w all) ([]*Lock, error)) (*Locks, error) {
	names, o, err := l.several(names, opts)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := checkNested(ctx, l.places, name, o.Terms); err != nil {
			return nil, err
		}
	}
	inTime, cancel := within(ctx, &o)
	defer cancel()
	locks, err := acquire(inTime, all{locker: l, values: ctx, names: names, terms: o.Terms})
	if err == nil {
		err = lengthen(inTime, locks...)
	}
	if err != nil {
		return nil, err
	}
	return newLocks(ctx, locks), nil
}

// several checks what is asked for, and returns the names in order, each once.
func (l *Locker) several(names []string, opts []Option) ([]string, shell.Options, error) {
	o, err := l.config.optionsOf(opts)
	switch {
	case err != nil:
		return nil, o, err
	case len(names) == 0:
		return nil, o, invalidf("there are no names to lock")
	}
	for _, name := range names {
		if err := CheckName(name); err != nil {
			return nil, o, err
		}
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > MaxNames {
		return nil, o, invalidf("%d names are to be locked together, at most %d are possible", len(names), MaxNames)
	}
	return names, o, nil
}

// all is a call of AcquireAll.
type all struct {
	locker *Locker
	values context.Context
	names  []string // in order
	terms  shell.Terms
}

// inOrderEach is after how many rounds names are taken in order. Two calls may meet repeatedly,
// each with what the other wants: then one of them wins.
const inOrderEach = 3

func (w all) acquire(ctx context.Context) ([]*Lock, error) {
	refused := ""
	var last error // why names were refused, as far as is known
	for round := 0; ; round++ {
		var locks []*Lock
		var err error
		if round%inOrderEach == inOrderEach-1 {
			refused, locks, err = w.inOrder(ctx)
		} else {
			refused, locks, err = w.atOnce(ctx, refused)
		}
		if err == nil {
			ended := slices.IndexFunc(locks, func(k *Lock) bool { return k.Remaining() == 0 })
			if ended < 0 {
				return locks, nil
			}
			giveUp(ctx, locks...) // it was too long until the others were there
			refused = locks[ended].name
			continue
		}
		last = cmp.Or(refusal(err), last)
		if ctx.Err() != nil || refused == "" {
			return nil, withReason(ctx, cmp.Or(refused, w.names[0]), err, last)
		}
	}
}

// withReason returns err, unless the context has ended and err does not tell both that and why an
// attempt failed. Then it returns an error that does, as far as is known.
func withReason(ctx context.Context, name string, err, last error) error {
	if ctx.Err() != nil && (refusal(err) == nil || !errors.Is(err, ctx.Err())) {
		return gaveUp(ctx, name, last)
	}
	return err
}

// refusal returns what an error says of the lock, nil if it is about something else.
func refusal(err error) error {
	var h *HeldError
	var q *QuorumError
	switch {
	case errors.As(err, &h):
		return h
	case errors.As(err, &q):
		return q
	}
	return nil
}

// atOnce waits for one name, if there is one, and then tries all others. If another client has one
// of those, it is refused, and nothing is held.
func (w all) atOnce(ctx context.Context, first string) (refused string, locks []*Lock, err error) {
	l := w.locker
	if first != "" {
		k, err := l.acquireUntil(ctx, w.values, first, w.terms, l.client.Acquire)
		if err != nil {
			return "", nil, err
		}
		locks = append(locks, k)
	}
	if ctx.Err() != nil {
		giveUp(ctx, locks...)
		return "", nil, gaveUp(ctx, w.names[0], nil)
	}
	var wants []trial
	for _, name := range w.names {
		if name != first {
			wants = append(wants, trial{name, w.terms})
		}
	}
	var tried []*Lock
	var errs []error
	observed(func() { giveUp(ctx, locks...) }, func() { tried, errs = l.tryEach(ctx, w.values, wants) })
	for i, k := range tried {
		switch {
		case k != nil:
			locks = append(locks, k)
		case err == nil || !mayPass(errs[i]):
			refused, err = wants[i].name, errs[i]
		}
	}
	if err == nil {
		slices.SortFunc(locks, func(a, b *Lock) int { return strings.Compare(a.name, b.name) })
		return "", locks, nil
	}
	giveUp(ctx, locks...)
	if !mayPass(err) {
		refused = ""
	}
	return refused, nil, err
}

// trial is a lock that is to be tried.
type trial struct {
	name  string
	terms shell.Terms
}

// tryEach tries several locks at once. A lock is nil where its error tells why.
func (l *Locker) tryEach(ctx, values context.Context, wants []trial) (locks []*Lock, errs []error) {
	begun := make([]*Lock, len(wants))
	for i, w := range wants {
		begun[i] = l.start(ctx, values, w.name, w.terms, l.client.TryAcquire)
	}
	locks, errs = make([]*Lock, len(wants)), make([]error, len(wants))
	returned := 0
	defer func() { // an observer may panic
		if returned == len(begun) {
			return
		}
		for i, k := range begun {
			switch {
			case i > returned:
				go k.abandon()
			case locks[i] != nil:
				go giveUp(ctx, k)
			}
		}
	}()
	for i, k := range begun {
		if errs[i] = k.finish(ctx); errs[i] == nil {
			locks[i] = k
		}
		returned++
	}
	return locks, errs
}

// inOrder takes one after the other, and waits for each: not for longer than a TTL, while it
// keeps others from what it has.
func (w all) inOrder(ctx context.Context) (refused string, locks []*Lock, err error) {
	observed(func() { giveUp(ctx, locks...) }, func() {
		for _, name := range w.names {
			k, late, failed := w.wait(ctx, name, len(locks) > 0)
			if err = failed; err != nil {
				if late && ctx.Err() == nil {
					refused = name
				}
				return
			}
			locks = append(locks, k)
		}
	})
	if err == nil {
		return "", locks, nil
	}
	giveUp(ctx, locks...)
	return refused, nil, err
}

// wait waits for one name, if briefly no longer than a TTL, and reports whether that was over.
func (w all) wait(ctx context.Context, name string, briefly bool) (k *Lock, late bool, err error) {
	if briefly {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.terms.TTL)
		defer cancel()
	}
	k, err = w.locker.acquireUntil(ctx, w.values, name, w.terms, w.locker.client.Acquire)
	return k, ctx.Err() != nil, err
}

// mayPass reports whether it may help to wait.
func mayPass(err error) bool {
	var q *QuorumError
	if errors.As(err, &q) {
		return !q.Permanent()
	}
	return errors.Is(err, ErrHeld) && !errors.Is(err, ErrNested)
}
