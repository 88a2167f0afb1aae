package ui

import (
	"slices"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/fence"
)

// lock is one lock in a picture.
type lock struct {
	admin.LockInfo
	at time.Time // of the question: Left counts from it
	// span is the longest Left that was seen of this holder. A holder that lives does not
	// come under half of it: it extends each third of its TTL.
	span    time.Duration
	waiters []waiter // as many as Waiters
	queued  bool     // the waiters were asked for
}

// late reports whether the holder should have extended its lease long ago.
func (l lock) late() bool { return l.State == admin.Held && l.Left > 0 && l.Left < l.span/2 }

// waiter is a client that waits, or a holder that shares a lock.
type waiter struct {
	label string
	since time.Time
}

// holding is what tells one holder of a lock from the next: the nodes know more, but
// nothing that may leave them.
type holding struct {
	label string
	since time.Time // by the holder's clock
	token fence.Token
	seen  time.Time // first
	// shares are those who have it together, if it is shared, and slots is how many slots it
	// has. More are there perhaps.
	shares []waiter
	slots  int
	more   bool
}

// same reports whether two have the same holder, or one that shares it in common.
func (h holding) same(other holding) bool {
	if len(h.shares)+len(other.shares) > 0 {
		return slices.ContainsFunc(h.holders(), func(w waiter) bool { return has(other.holders(), w) })
	}
	return h.label == other.label && h.since.Equal(other.since) &&
		(h.token == other.token || h.token == 0 || other.token == 0)
}

// holders are those who have it together, or the one that has it alone.
func (h holding) holders() []waiter {
	if len(h.shares) > 0 {
		return h.shares
	}
	return []waiter{{h.label, h.since}}
}

func has(all []waiter, one waiter) bool {
	return slices.ContainsFunc(all, func(w waiter) bool { return w.label == one.label && w.since.Equal(one.since) })
}

// jitter is what the time of a question makes of a moment that is told as a time that has
// passed.
const jitter = 1500 * time.Millisecond

func (l *lock) steady(before map[string]lock) {
	prev := before[l.Name]
	l.span = l.Left
	if l.State == admin.Held && l.holder().same(prev.holder()) {
		l.span = max(l.span, prev.span)
	}
	l.waiters = nil
	known := slices.Clone(prev.waiters)
	for _, w := range l.Waiters {
		here := waiter{w.Label, l.at.Add(-w.Waited)}
		if i := slices.IndexFunc(known,
			func(k waiter) bool { return k.label == w.Label && k.since.Sub(here.since).Abs() < jitter }); i >= 0 {
			here = known[i]
			known = slices.Delete(known, i, i+1)
		}
		l.waiters = append(l.waiters, here)
	}
}

func (l lock) holder() holding {
	h := holding{label: l.Label, since: l.Since, token: l.Token, slots: l.Slots, more: l.MoreShares}
	for _, s := range l.Shares {
		if s.Nodes > len(l.Votes)/2 {
			h.shares = append(h.shares, waiter{s.Label, s.Since})
		}
	}
	return h
}

// without returns the waiters but for one that is the same, as far as that can be told, and
// whether it was there.
func without(all []waiter, one waiter) (rest []waiter, found bool) {
	i := slices.IndexFunc(all, func(w waiter) bool {
		return w.label == one.label &&
			w.since.Sub(one.since).Abs() < jitter
	})
	if i < 0 {
		return all, false
	}
	return slices.Delete(slices.Clone(all), i, i+1), true
}
