package rule

import (
	"cmp"
	"slices"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Line is who waits for a name on a node, in the order of their stamps. The
// line decides who tries next, the lease decides who holds: whatever happens
// to a line, the operations above keep their promises. The zero Line is empty.
type Line []node.Place

func byStamp(a, b node.Place) int {
	return cmp.Or(cmp.Compare(a.Stamp, b.Stamp), cmp.Compare(a.Waiter, b.Waiter))
}

// Ahead returns how many are before a waiter, or all if it is not in the line.
func (l Line) Ahead(waiter string) int {
	for i, p := range l {
		if p.Waiter == waiter {
			return i
		}
	}
	return len(l)
}

// Join puts a waiter into the line, once: one who comes again keeps the place
// that it has. A full line takes nobody; who is not in it polls.
func (l *Line) Join(p node.Place) {
	if p.Waiter == "" || len(*l) >= MaxQueue || l.Ahead(p.Waiter) < len(*l) {
		return
	}
	i, _ := slices.BinarySearchFunc(*l, p, byStamp)
	*l = slices.Insert(*l, i, p)
}

// Leave takes a waiter out of the line.
func (l *Line) Leave(waiter string) {
	if i := l.Ahead(waiter); i < len(*l) {
		*l = slices.Delete(*l, i, i+1)
	}
}

// call takes the first in line whom it can reach out of it, and keeps the name
// for that one. Those who cannot be reached are gone: they are dropped. It stops
// at self, which needs no call, and returns whom it has called, "" for nobody.
func call(e *Entry, l *Line, now time.Duration, self string, reachable func(waiter string) bool) (called string) {
	for len(*l) > 0 {
		head := (*l)[0].Waiter
		if head == self {
			return ""
		}
		*l = slices.Delete(*l, 0, 1)
		if reachable(head) {
			e.Holder, e.Expires = node.Reserved(head), now+ReservationTTL
			return head
		}
	}
	return ""
}

// AcquireInLine is Acquire for a name that has a line. A waiter that is refused
// joins the line. A name that is kept for the asker is the asker's, whoever has
// joined before it meanwhile. A name that is free goes to the first in line: to
// the asker if that is who it is, otherwise it is kept for the first one, who is
// returned and has to be told. Reachable reports whether a waiter can be told.
func AcquireInLine(e *Entry, l *Line, now time.Duration, p node.Place, reachable func(waiter string) bool,
	acquire func(*Entry) Reply) (reply Reply, called string) {
	switch {
	case e.Out:
	case p.Waiter != "" && e.leasedTo(node.Reserved(p.Waiter), now):
		e.Holder = ""
	case !e.Leased(now) && len(*l) > 0:
		l.Join(p)
		called = call(e, l, now, p.Waiter, reachable)
	}
	switch reply = acquire(e); reply.Status {
	case node.Granted:
		l.Leave(p.Waiter)
	case node.Held:
		l.Join(p)
	}
	return reply, called
}

// ReleaseInLine is Release for a name that has a line. It also gives up what is
// kept for the waiter. With a stamp the waiter goes on waiting, and joins the
// line again: its attempt has failed. Without, it leaves the line. Then it
// calls the next, who is returned and has to be told, unless that is the
// waiter itself: it would only try in vain what has just failed.
func ReleaseInLine(e *Entry, l *Line, now time.Duration, holder node.Holder, p node.Place, reachable func(waiter string) bool) (reply Reply, called string) {
	reply = Release(e, now, holder)
	freed := reply.Status == node.Granted
	if p.Waiter != "" {
		if e.leasedTo(node.Reserved(p.Waiter), now) {
			e.Holder, freed = "", true
		}
		if p.Stamp == 0 {
			l.Leave(p.Waiter)
		} else {
			l.Join(p)
		}
	}
	if freed {
		called = call(e, l, now, p.Waiter, reachable)
	}
	return reply, called
}

// ForceReleaseInLine is ForceRelease for a name that has a line: it calls the next.
func ForceReleaseInLine(e *Entry, l *Line, now time.Duration, reachable func(waiter string) bool,
	force func(*Entry) Reply) (reply Reply, called string) {
	if reply = force(e); reply.Status == node.Granted {
		called = call(e, l, now, "", reachable)
	}
	return reply, called
}
