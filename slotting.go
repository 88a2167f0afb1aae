package fenlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fenlock/fenlock/internal/shell"
)

// slotting is an acquisition of a slot: of the slot's lock, alone, and of the name, shared with all
// who have a slot. Both are asked for at once. While it waits for one of them it holds nothing.
type slotting struct {
	locker *Locker
	name   string
	names  []string // of the slots
	order  *guesses
	values context.Context
	waits  bool
	terms  shell.Terms // of the slot
	shared shell.Terms // of the name

	number      int
	slot, share *Lock
}

// acquire returns when both are held, or nothing is.
func (a *slotting) acquire(ctx context.Context) (err error) {
	observed(func() { giveUp(ctx, a.held()...) }, func() { err = a.tryAndWait(ctx) })
	return err
}

func (a *slotting) tryAndWait(ctx context.Context) error {
	var last error // why it was refused, as far as is known
	byName, err := a.atOnce(ctx)
	for {
		last = cmp.Or(refusal(err), last)
		switch {
		case err == nil && a.slot.Remaining() > 0 && a.share.Remaining() > 0:
			a.slot.holdWith(a.share)
			return nil
		case err == nil: // it was too long until the second was there
			a.drop(ctx)
			byName, err = a.atOnce(ctx)
			continue
		}
		a.drop(ctx)
		switch {
		case ctx.Err() != nil, !a.waits, !mayPass(err):
			return withReason(ctx, a.name, err, last)
		case byName:
			byName, err = a.waitForName(ctx)
		default:
			byName, err = a.waitForSlot(ctx, err)
		}
	}
}

func (a *slotting) held() (locks []*Lock) {
	for _, k := range []*Lock{a.slot, a.share} {
		if k != nil {
			locks = append(locks, k)
		}
	}
	return locks
}

func (a *slotting) drop(ctx context.Context) {
	locks := a.held()
	if a.slot != nil {
		a.order.prefer(a.number)
	}
	a.slot, a.share = nil, nil
	giveUp(ctx, locks...)
}

// atOnce tries the name and the best guess of a slot, and then the other slots. If an error is
// about the name, or about nodes that are down, byName is true: then it is that to wait for.
func (a *slotting) atOnce(ctx context.Context) (byName bool, err error) {
	if ctx.Err() != nil {
		return true, gaveUp(ctx, a.name, nil)
	}
	tried := make([]bool, len(a.names))
	numbers := a.order.guess(1, tried)
	locks, errs := a.locker.tryEach(ctx, a.values, []trial{{a.name, a.shared}, {a.names[numbers[0]], a.terms}})
	a.share, a.slot, a.number = locks[0], locks[1], numbers[0]
	switch {
	case errs[1] != nil && !mayPass(errs[1]):
		return false, errs[1]
	case errs[0] != nil:
		return true, errs[0]
	case errs[1] != nil:
		return a.others(ctx, tried, errs[1])
	}
	return false, nil
}

// others tries the slots that were not tried: one, or two at once, then four and so on. The first
// that is free is taken. Err is why the last one was refused. A caller that is to wait tries no
// more once it finds others waiting. They are in the queues of all slots, so a free one is theirs.
func (a *slotting) others(ctx context.Context, tried []bool, err error) (byName bool, _ error) {
	for most := 2; err == nil || errors.Is(err, ErrHeld) && ctx.Err() == nil; most *= 2 {
		var held *HeldError
		if a.waits && errors.As(err, &held) && held.Ahead > 0 {
			return false, err
		}
		numbers := a.order.guess(most, tried)
		if len(numbers) == 0 {
			return false, fmt.Errorf("fenlock: none of the %d slots of %q is free: %w", len(a.names), a.name, err)
		}
		var wants []trial
		for _, i := range numbers {
			wants = append(wants, trial{a.names[i], a.terms})
		}
		locks, errs := a.locker.tryEach(ctx, a.values, wants)
		var more []*Lock
		for i, k := range locks {
			switch {
			case k == nil && (err == nil || mayPass(err)):
				err = errs[i]
			case k == nil:
			case a.slot == nil:
				a.slot, a.number = k, numbers[i]
			default:
				more = append(more, k)
				a.order.prefer(numbers[i])
			}
		}
		if a.slot != nil {
			giveUp(ctx, more...)
			return false, nil
		}
	}
	return true, err
}

// waitForName waits until the name can be shared, and tries the slots. Those are what to wait for
// then: the name is free, so a client that came back to it would ask repeatedly without a pause.
func (a *slotting) waitForName(ctx context.Context) (byName bool, err error) {
	l := a.locker
	if a.share, err = l.acquireUntil(ctx, a.values, a.name, a.shared, l.client.Acquire); err != nil {
		return true, err
	}
	_, err = a.others(ctx, make([]bool, len(a.names)), nil)
	return false, err
}

// waitForSlot waits in the lines of all slots, because none was free, and tries the name.
func (a *slotting) waitForSlot(ctx context.Context, why error) (byName bool, err error) {
	l := a.locker
	names, err := notNested(a.names, func(name string) error { return checkNested(ctx, l.places, name, a.terms) })
	if err != nil {
		return false, err
	}
	a.slot, err = waitAny(ctx, names, refusal(why), func(ctx context.Context, name string) (*Lock, error) {
		return l.acquireUntil(ctx, a.values, name, a.terms, l.client.Acquire)
	})
	if err != nil {
		return false, err
	}
	for i, name := range a.names {
		if name == a.slot.name {
			a.number = i
		}
	}
	a.share, err = l.acquireUntil(ctx, a.values, a.name, a.shared, l.client.TryAcquire)
	return true, err
}

// guesses are the slots in the order in which they are asked for.
type guesses struct {
	mu    sync.Mutex
	slots []int
}

// guess returns up to so many slots that were not tried before, the best guesses. They are the
// worst from now on.
func (g *guesses) guess(most int, tried []bool) (numbers []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slots = slices.DeleteFunc(g.slots, func(i int) bool {
		if len(numbers) == most || tried[i] {
			return false
		}
		tried[i] = true
		numbers = append(numbers, i)
		return true
	})
	g.slots = append(g.slots, numbers...)
	return numbers
}

// prefer makes a slot that has become free the best guess. So a process mostly gets the slot that
// it had before, for which no other process asks first.
func (g *guesses) prefer(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slots = slices.Insert(slices.DeleteFunc(g.slots, func(i int) bool { return i == number }), 0, number)
}
