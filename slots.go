package fenlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// MaxSlots is how many slots a name can have.
const MaxSlots = 100

// Slots let as many clients hold a name at a time as it has slots, and no more. Each slot is a lock
// of its own, NAME#0 to NAME#4 if there are five, with its own token, queue and lease. That makes
// the number exact. Counting holders on each node admits too many.
//
// The holder of a slot shares NAME as well, with all clients that use the same number of slots. A
// client that uses another number gets ErrSlots. A client that acquires NAME itself, alone, waits
// until no slot is held. Do not share NAME in another way (WithShared). Such clients and those that
// want a slot exclude each other, and have no queue in common. So either may wait for as long as
// there are some of the others.
//
// A waiter is in the queues of all slots, and asks in each every few seconds. So each node's cost
// is the number of waiting processes, times the number of slots. Make one Slots for each name and
// process: it remembers which slot to ask for first. Safe for concurrent use.
type Slots struct {
	locker *Locker
	name   string
	names  []string // of the slots
	order  guesses
}

// Slots returns the slots of a name. It sends nothing. The error matches ErrInvalid: n is not 1 to
// MaxSlots, the name with a slot's number is too long, or a node is no node.Sharer.
func (l *Locker) Slots(name string, n int) (*Slots, error) {
	if n < 1 || n > MaxSlots {
		return nil, invalidf("%q is to have %d slots: 1 to %d are possible", name, n, MaxSlots)
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	s := &Slots{locker: l, name: name}
	s.order.slots = rand.Perm(n) // so that not all processes begin with the same
	for i := range n {
		s.names = append(s.names, name+"#"+strconv.Itoa(i))
	}
	if err := CheckName(s.names[n-1]); err != nil {
		return nil, fmt.Errorf("a slot of it: %w", err)
	}
	return s, l.config.checkShared()
}

// Acquire takes a slot, and waits until one is free: in the lines of all slots, first come first
// served. The errors are those of Locker.Acquire, about NAME or one of the slots, and ErrSlots.
// Slots that the caller holds itself, as its context tells, are not waited for.
func (s *Slots) Acquire(ctx context.Context, opts ...Option) (*Slot, error) {
	return s.acquire(ctx, true, opts)
}

// TryAcquire takes a slot if one is free. If none is, the error matches ErrHeld.
func (s *Slots) TryAcquire(ctx context.Context, opts ...Option) (*Slot, error) {
	return s.acquire(ctx, false, opts)
}

func (s *Slots) acquire(ctx context.Context, waits bool, opts []Option) (*Slot, error) {
	o, err := s.locker.config.optionsOf(opts)
	switch {
	case err != nil:
		return nil, err
	case o.Terms.Shared:
		return nil, invalidf("a slot is not to be shared (WithShared)")
	}
	a := slotting{locker: s.locker, name: s.name, names: s.names, order: &s.order, values: ctx, waits: waits,
		terms: o.Terms, shared: o.Terms}
	a.shared.Shared, a.shared.Slots, a.shared.MaxHold = true, len(s.names), -1 // it ends with the slot
	if err := checkNested(ctx, s.locker.places, s.name, a.shared); err != nil {
		return nil, err
	}
	if waits {
		a.terms.Arrived = max(s.locker.config.Clock(), 1) // it may have to wait for the name, and for a slot again
	}
	inTime, cancel := within(ctx, &o)
	defer cancel()
	if err := a.acquire(inTime); err != nil {
		return nil, err
	}
	context.AfterFunc(a.slot.Context(), func() { s.order.prefer(a.number) })
	if err := lengthen(inTime, a.slot); err != nil {
		return nil, err
	}
	return &Slot{a.slot, a.number}, nil
}

// Slot is one of several that is, or was, held: the lock NAME#NUMBER. Its token is larger than that
// of every earlier holder of the same slot; tokens of different slots are in no order, so a
// resource keeps the largest for each slot. Release it after a loss too. If what was lost is NAME,
// the slot stays taken until the release or the maximum hold. So a holder that has not stopped yet
// is alone. Safe for concurrent use.
type Slot struct {
	*Lock
	number int
}

// Number is the slot's: 0 up to the number of slots, less one. While it is held, no other client
// has the same, so that work may be shared out by it.
func (s *Slot) Number() int { return s.number }
