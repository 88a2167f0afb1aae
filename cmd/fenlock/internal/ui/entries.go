package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/admin"
)

// entry is a row of the list: a lock, or a name with those of its slots that are in the picture.
type entry struct {
	lock
	slots []slot // in the order of their numbers
}

// slot is one slot of a name.
type slot struct {
	lock
	number int
}

// entriesOf puts the slots of a name in one row. A slot whose name is not in the list has a row
// of its own.
func entriesOf(locks []lock) (all []entry) {
	slotted := map[string]int{} // the number of slots, by name
	for _, l := range locks {
		if l.Slots > 0 {
			slotted[l.Name] = l.Slots
		}
	}
	if len(slotted) == 0 {
		for _, l := range locks {
			all = append(all, entry{lock: l})
		}
		return all
	}
	slots := map[string][]slot{}
	for _, l := range locks {
		if name, number, is := slotName(l.Name); is && number < slotted[name] {
			slots[name] = append(slots[name], slot{l, number})
		}
	}
	for _, l := range locks {
		if name, number, is := slotName(l.Name); is && number < slotted[name] {
			continue
		}
		e := entry{lock: l, slots: slots[l.Name]}
		slices.SortFunc(e.slots, func(a, b slot) int { return cmp.Compare(a.number, b.number) })
		all = append(all, e)
	}
	return all
}

// slotName splits the name of a slot's lock: NAME#3 is slot 3 of NAME.
func slotName(lock string) (name string, number int, is bool) {
	i := strings.LastIndexByte(lock, '#')
	if i < 1 {
		return "", 0, false
	}
	n, err := strconv.Atoi(lock[i+1:])
	return lock[:i], n, err == nil && n >= 0 && strconv.Itoa(n) == lock[i+1:]
}

// queue is the lock whose queue stands for the entry. Each waiter for a slot is in the queues
// of all slots: the longest one has most of them.
func (e entry) queue() lock {
	longest := e.lock
	for _, s := range e.slots {
		if s.Waiting > longest.Waiting {
			longest = s.lock
		}
	}
	return longest
}

// waiters are those in the queue of the entry, or in one of its slots, and whether they are all
// of them. None are known if the queue was not asked for.
func (e entry) waiters() (all []waiter, whole bool) {
	if len(e.slots) == 0 {
		return e.lock.waiters, e.queued && len(e.lock.waiters) >= e.Waiting
	}
	whole = true
	for _, s := range e.slots {
		others := slices.Clone(all)
		for _, w := range s.waiters {
			rest, known := without(others, w)
			if others = rest; !known {
				all = append(all, w)
			}
		}
		whole = whole && (s.Waiting == 0 || s.queued) && len(s.waiters) >= s.Waiting
	}
	return all, whole
}

// heldSlots is how many slots are held.
func (e entry) heldSlots() (n int) {
	for _, s := range e.slots {
		if s.State == admin.Held {
			n++
		}
	}
	return n
}

// late reports whether any holder should have extended its lease long ago.
func (e entry) late() bool {
	return e.lock.late() || slices.ContainsFunc(e.slots, func(s slot) bool { return s.late() })
}

// holds reports whether a label is that of a holder.
func (e entry) holds(label string) bool {
	return e.Label == label || slices.ContainsFunc(e.holder().shares, func(w waiter) bool { return w.label == label }) ||
		slices.ContainsFunc(e.slots, func(s slot) bool { return s.Label == label })
}

// since is when the oldest holder of the entry took it, zero if that is not known.
func (e entry) since() (oldest time.Time) {
	take := func(t time.Time) {
		if !t.IsZero() && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	take(e.Since)
	for _, s := range e.Shares {
		take(s.Since)
	}
	for _, s := range e.slots {
		take(s.Since)
	}
	return oldest
}

// has reports whether a part of a name is in one of the entry's.
func (e entry) has(part string) bool {
	return strings.Contains(e.Name, part) ||
		slices.ContainsFunc(e.slots, func(s slot) bool { return strings.Contains(s.Name, part) })
}

// order is by what the locks are sorted.
type order string

// The orders. The first one is that of the names' bytes.
const (
	byName    order = ""
	byAge     order = "age"     // the oldest first, those of unknown age last
	byWaiting order = "waiting" // the longest queue first
)

// orderOf reads an order. The error is for a person to read.
func orderOf(text string) (order, error) {
	switch o := order(text); o {
	case byName, byAge, byWaiting:
		return o, nil
	}
	return byName, fmt.Errorf("there is no order %.20q", text)
}

// sort sorts entries that are in the order of their names.
func (o order) sort(all []entry) {
	age := func(a, b entry) int {
		x, y := a.since(), b.since()
		if x.IsZero() != y.IsZero() {
			return y.Compare(x) // the zero time is before all others
		}
		return x.Compare(y)
	}
	switch o {
	case byAge:
		slices.SortStableFunc(all, age)
	case byWaiting:
		slices.SortStableFunc(all, func(a, b entry) int {
			return cmp.Or(cmp.Compare(b.queue().Waiting, a.queue().Waiting), age(a, b))
		})
	}
}
