package fenlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fenlock/fenlock/internal/shell"
)

// pair takes the locks of names on two groups: on the one that they leave, then on the one that
// they go to. Processes that know the first only meet it there, those that know the second only
// meet it here. So two clients hold a name only if one knows the first only and the other the
// second only. The procedure of docs/groups.md rules that out.
//
// Tokens have to grow from one process to the next, whichever group that takes its own from. So the
// token T of a pair is the larger one of its two locks'. No caller is told of it before the mark of
// the other lock is raised to T, on that lock's group (core.Attempt.Want):
//
//   - A holder that finishes on one of the groups before has a smaller token than the pair's lock
//     there, so than T.
//   - A client that comes after it on the group that T is of has a larger one.
//   - A client that comes after it on the other group has a larger one than the mark, so than T
//     (internal/core/README.md, "An extension").
//
// It makes no difference whether those are pairs themselves: they have at least the token of their
// lock there.
//
// The locks of a name are always taken in this order, so that two pairs do not wait for each other.
// A name comes from a group that is removed, or goes to one that is added. So for a client that
// holds several names, groups that are removed come before those that stay, and these before those
// that are added.
type pair struct {
	old, new           *Locker
	oldTerms, newTerms shell.Terms
	wait               shell.Options // of the whole
}

func newPair(from, to *Locker, opts []Option) (*pair, error) {
	old, err := from.config.optionsOf(opts)
	if err != nil {
		return nil, err
	}
	o, err := to.config.optionsOf(opts)
	if err != nil {
		return nil, err
	}
	// The tenure begins with the second lock, for which the first one may have to wait for long.
	old.Terms.MaxHold = -1
	return &pair{old: from, new: to, oldTerms: old.Terms, newTerms: o.Terms, wait: o}, nil
}

// one takes the lock of one name.
func (p *pair) one(ctx context.Context, name string, waits bool) (*Lock, error) {
	inTime, cancel := within(ctx, &p.wait)
	defer cancel()
	k, err := p.until(inTime, ctx, name, waits)
	return lengthened(inTime, k, err)
}

// until is one until a context is done. The lock's own has the values of another.
func (p *pair) until(ctx, values context.Context, name string, waits bool) (*Lock, error) {
	if err := checkNested(ctx, p.new.places, name, p.newTerms); err != nil {
		return nil, err
	}
	locks, err := p.acquire(ctx, name, takeOne(values, name, waits), waits)
	if err != nil {
		return nil, err
	}
	return locks[0], nil
}

// all takes the locks of several names.
func (p *pair) all(ctx context.Context, names []string, opts []Option) (*Locks, error) {
	return p.new.acquireAll(ctx, names, opts, func(inTime context.Context, w all) ([]*Lock, error) {
		return p.acquire(inTime, w.names[0], takeAll(ctx, w.names), true)
	})
}

// taking takes the locks of one group.
type taking func(ctx context.Context, l *Locker, terms shell.Terms) ([]*Lock, error)

// takeOne takes one name.
func takeOne(values context.Context, name string, waits bool) taking {
	return func(ctx context.Context, l *Locker, terms shell.Terms) ([]*Lock, error) {
		k, err := l.acquireUntil(ctx, values, name, terms, l.begin(waits))
		if err != nil {
			return nil, err
		}
		return []*Lock{k}, nil
	}
}

// takeAll takes several names, as AcquireAll does.
func takeAll(values context.Context, names []string) taking {
	return func(ctx context.Context, l *Locker, terms shell.Terms) ([]*Lock, error) {
		w := all{locker: l, values: values, names: names, terms: terms}
		return w.acquire(ctx)
	}
}

// acquire takes the locks of the second group, each with that of the first. Of the errors, those
// that are about the whole have this name.
func (p *pair) acquire(ctx context.Context, name string, take taking, waits bool) ([]*Lock, error) {
	var last error // why an attempt failed, as far as is known
	for {
		locks, err := p.attempt(ctx, take)
		if err == nil {
			return locks, nil
		}
		why := refusal(err)
		last = cmp.Or(why, last)
		var q *QuorumError
		lost := errors.Is(err, errAgain)
		missed := waits && errors.As(err, &q) && q.Op == "extend" && !q.Permanent() // the nodes were there a moment ago
		switch {
		case ctx.Err() != nil && (lost || missed || why == nil && errors.Is(err, ctx.Err())):
			return nil, gaveUp(ctx, name, last)
		case lost:
		case missed:
			select {
			case <-ctx.Done():
			case <-time.After(p.old.config.NodeTimeout):
			}
		default:
			return nil, err
		}
	}
}

// errAgain: nothing is held, and it is known that another attempt helps.
var errAgain = errors.New("again")

func (p *pair) attempt(ctx context.Context, take taking) (locks []*Lock, err error) {
	var held []*Lock
	done := false
	defer func() {
		switch {
		case done:
		case err != nil:
			giveUp(ctx, held...)
		default: // an observer panics
			go giveUp(ctx, held...)
		}
	}()
	olds, err := take(ctx, p.old, p.oldTerms)
	if err != nil {
		return nil, err
	}
	held = olds
	for _, old := range olds { // mostly T is of the second group then, as what its nodes show
		p.new.client.Observe(old.Token())
	}
	while, stop := context.WithCancel(ctx)
	defer stop()
	for _, old := range olds {
		defer context.AfterFunc(old.ctx, stop)()
	}
	locks, err = take(while, p.new, p.newTerms)
	if err != nil {
		if while.Err() != nil && ctx.Err() == nil {
			err = errors.Join(errAgain, err) // the first lock was lost
		}
		return nil, err
	}
	held = append(held, locks...)
	if err := raise(ctx, olds, locks); err != nil {
		return nil, err
	}
	for i, k := range locks {
		k.holdWith(olds[i])
	}
	done = true
	return locks, nil
}

// raise raises the mark of the one of each two locks that has the smaller token, all at once.
func raise(ctx context.Context, olds, locks []*Lock) error {
	low := slices.Clone(olds)
	begun := make([]*extension, len(low))
	errs := make([]error, len(low))
	for i, to := range locks {
		if to.Token() < low[i].Token() {
			low[i], to = to, low[i]
		}
		begun[i], errs[i] = low[i].startExtend(to.Token())
	}
	for i, k := range low {
		if errs[i] == nil {
			errs[i] = k.awaitExtension(ctx, begun[i])
		}
		switch err := errs[i]; {
		case err == nil:
		case ctx.Err() != nil:
			errs[i] = gaveUp(ctx, k.name, nil)
		case errors.Is(err, ErrLost), errors.Is(err, ErrMaxHold):
			errs[i] = errAgain
		}
	}
	return errors.Join(errs...)
}
