package rule

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// Line is who waits for a name on a node, in the order of their stamps. The
// line decides who tries next, the lease decides who holds: whatever happens
// to a line, the operations above keep their promises. The zero Line is empty.
type Line []Place

// Place is a waiter's place in a line.
type Place struct {
	// Waiter is the identity of one wait, the same on all nodes and for all of
	// its attempts. Empty is nobody: who does not wait is in no line.
	Waiter string
	// Stamp is when the wait began, in microseconds of the nodes' time. It is the
	// same on all nodes, so that they agree about who is next. In a release, 0
	// means that the wait is over.
	Stamp int64
}

// reservation begins the holder of a lease that keeps a free name for a waiter
// that was called. To everybody else it is a lease like any other.
const reservation = "next:"

// Reserved returns the holder of a lease that keeps a name for a waiter.
func Reserved(waiter string) string { return reservation + waiter }

// IsReserved reports whether a holder keeps the name for a waiter.
func IsReserved(holder string) bool { return strings.HasPrefix(holder, reservation) }

func byStamp(a, b Place) int {
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
func (l *Line) Join(p Place) {
	if p.Waiter == "" || len(*l) >= core.MaxLine || l.Ahead(p.Waiter) < len(*l) {
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
			e.Holder, e.Expires = Reserved(head), now+core.ClaimWindow
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
func AcquireInLine(e *Entry, l *Line, now time.Duration, p Place, reachable func(waiter string) bool,
	acquire func(*Entry) core.Reply) (reply core.Reply, called string) {
	switch {
	case e.Out:
	case p.Waiter != "" && e.leasedTo(Reserved(p.Waiter), now):
		e.Holder = ""
	case !e.Leased(now) && len(*l) > 0:
		l.Join(p)
		called = call(e, l, now, p.Waiter, reachable)
	}
	switch reply = acquire(e); reply.Status {
	case core.Granted:
		l.Leave(p.Waiter)
	case core.Held:
		l.Join(p)
	}
	return reply, called
}

// ReleaseInLine is Release for a name that has a line. It also gives up what is
// kept for the waiter. With a stamp the waiter goes on waiting, and joins the
// line again: its attempt has failed. Without, it leaves the line. Then it
// calls the next, who is returned and has to be told, unless that is the
// waiter itself: it would only try in vain what has just failed.
func ReleaseInLine(e *Entry, l *Line, now time.Duration, holder string, p Place, reachable func(waiter string) bool) (reply core.Reply, called string) {
	reply = Release(e, now, holder)
	freed := reply.Status == core.Granted
	if p.Waiter != "" {
		if e.leasedTo(Reserved(p.Waiter), now) {
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
	force func(*Entry) core.Reply) (reply core.Reply, called string) {
	if reply = force(e); reply.Status == core.Granted {
		called = call(e, l, now, "", reachable)
	}
	return reply, called
}
