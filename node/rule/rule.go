// Package rule is what a node does, as a pure function: Serve carries out an
// operation of one node on one name, given the time. Engines that keep their state
// in Go or in SQL rows call it inside one transaction; engines that run scripts on a
// server translate it. The simulator and the exhaustive check of fenlock run it as
// it is.
//
// An engine reads the Entry of a name, and serves a Queue of the name's waiters, if it keeps any.
// Then it writes what Serve has left in both. All of that is one atomic step:
//
//	if err := rule.Check(r); err != nil {
//		return node.Answer{}, fmt.Errorf("%s: %w", n, err)
//	}
//	// Here the transaction begins.
//	answer, notify := rule.Serve(&entry, queue, now, r)
//	// Here it ends. Then the waiter notify is told, unless it is "".
//
// Store is such an engine's memory, for engines that have no other.
package rule

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Entry is what a node knows about one name: its lease and the register of
// its stripe. The zero Entry is that of a node that was never used.
type Entry struct {
	Holder   node.Holder   // empty: never leased, or removed
	Expires  time.Duration // on the node's clock; from this moment on the lease is gone
	Origin   fence.Token   // the lease's: the register when it was created
	Token    fence.Token   // the holder's, as far as it has told; nothing is decided by it
	Register fence.Token   // highest token ever promised for the stripe
	Out      bool          // not admitted: the node refuses, see node.Rejoining
}

// Leased reports whether the name is leased at now.
func (e *Entry) Leased(now time.Duration) bool { return e.Holder != "" && now < e.Expires }

// Bound is the Expires of a lease that is bound to processes: it has no end but theirs, which the
// engine sees, and no clock. It is later than the end of any other lease. See Entry.Bind.
const Bound = time.Duration(1 << 62)

// remaining returns what is left of a lease, 0 if it has no end.
func (e *Entry) remaining(now time.Duration) time.Duration {
	if e.Expires >= Bound {
		return 0
	}
	return e.Expires - now
}

func (e *Entry) leasedTo(holder node.Holder, now time.Duration) bool {
	return e.Leased(now) && e.Holder == holder
}

// Lease returns what an operator sees of the entry of name at now.
func (e *Entry) Lease(name string, now time.Duration) node.Lease {
	if !e.Leased(now) {
		return node.Lease{Name: name, Register: e.Register}
	}
	l := node.LeaseOf(name, e.Holder)
	l.Register, l.Remaining, l.Bound = e.Register, e.remaining(now), e.Expires == Bound
	if !l.Reserved && !l.Shared {
		l.Token, l.Origin = e.Token, e.Origin
	}
	return l
}

// Serve carries out a request that Check has passed, at now on the node's clock. It changes the
// entry and the queue of r.Name, and returns what the node answers. It also returns which waiter
// has to be told that the name is reserved for it, "" if none. Without a queue, nil, the node is
// none that keeps them: places are ignored.
//
// Whole milliseconds of r.TTL count.
func Serve(e *Entry, q Queue, now time.Duration, r node.Request) (a node.Answer, notify string) {
	r.Shared, r.Next = false, 0 // nothing is shared here, and nothing is given
	a, all := ServeShared(e, q, now, r)
	if len(all) > 0 {
		notify = all[0]
	}
	return a, notify
}

// ServeShared is Serve for a node.Sharer, of requests that CheckShared has passed. Several who are
// to share the name may have to be told at once. What is told is a waiter, or a node.Notice as
// text.
func ServeShared(e *Entry, q Queue, now time.Duration, r node.Request) (a node.Answer, notify []string) {
	if q == nil {
		q = noQueue{}
	}
	switch r.Op {
	case node.Acquire:
		if r.Shared {
			a, notify = acquireShared(e, q, now, r)
		} else {
			notify = giveWay(e, q, now, r.Place)
			a = acquire(e, now, r)
		}
		switch a.Status {
		case node.Granted:
			dequeue(q, r.Place.Waiter)
			if r.Shared {
				notify = append(notify, reserve(e, q, now, "", 0)...)
			}
		case node.Held:
			a.HeldBy, a.Holder, a.Slots = e.Holder.Label(), e.Holder.Fingerprint(), e.Holder.Slots()
			a.Remaining, a.Clock = e.remaining(now), now
			if r.Place.Waiter != "" && e.Holder == node.Given(r.Place.Waiter, e.Origin) {
				a.Given = e.Origin
			}
			a.Ahead = enqueue(q, r.Place)
		}
	case node.Confirm:
		a = confirm(e, now, r)
	case node.Extend:
		if !r.Shared {
			return extend(e, now, r), nil
		}
		alone := e.leasedTo(r.Holder, now)
		if a = extendShared(e, now, r); alone && !e.Out {
			notify = reserve(e, q, now, "", 0) // those who want to share it, too
		}
	case node.Release:
		a = release(e, now, r)
		if giveUp(e, q, now, r) || a.Status == node.Granted || e.sharedAt(now) {
			notify = reserve(e, q, now, r.Place.Waiter, r.Next)
		}
	case node.ForceRelease:
		if a = forceRelease(e, r); a.Status == node.Granted {
			notify = reserve(e, q, now, "", 0)
		}
	}
	return a, notify
}

// acquire leases the name to the holder, unless it is leased already, and promises
// a number larger than every number promised before.
//
// A lease of the same holder refuses too. An acquire is sent once only, but a
// delayed one can arrive after an extension has re-created the lease; granting
// it again would move the register for nothing.
func acquire(e *Entry, now time.Duration, r node.Request) node.Answer {
	switch {
	case e.Out:
		return node.Answer{Status: node.Rejoining}
	case e.Leased(now):
		return node.Answer{Status: node.Held}
	}
	e.Register = max(e.Register+1, r.Token)
	e.take(now, r)
	e.Origin, e.Token = e.Register, 0
	return node.Answer{Status: node.Granted, Register: e.Register}
}

// confirm raises the register to the token while the lease is the holder's. It refuses a token that
// the register has passed: a larger one was promised.
func confirm(e *Entry, now time.Duration, r node.Request) node.Answer {
	switch {
	case e.Out:
		return node.Answer{Status: node.Rejoining}
	case !e.leasedTo(r.Holder, now):
		if a, is := confirmShared(e, now, r); is {
			return a
		}
		return node.Answer{Status: node.Lost}
	case e.Register > r.Token:
		return node.Answer{Status: node.Outrun, Register: e.Register}
	}
	e.Register, e.Token = r.Token, r.Token
	return node.Answer{Status: node.Granted, Register: r.Token}
}

// extend renews the holder's lease, and creates it again if there is none: a node that restarted is
// mended while the lock is held. A reservation promises nothing, and must not keep it from that:
// waiters ask again and again. The lease's origin in the answer tells the holder what the
// acceptance proves. A floor, r.Token, raises the register.
func extend(e *Entry, now time.Duration, r node.Request) node.Answer {
	switch {
	case e.Out:
		return node.Answer{Status: node.Rejoining}
	case e.leasedTo(r.Holder, now):
		// It keeps its origin.
	case !e.Leased(now), e.Holder.Reserves(), e.onlyReserved(now):
		e.Origin, e.Token = e.Register, 0
	default:
		return node.Answer{Status: node.Lost}
	}
	e.take(now, r)
	e.Register = max(e.Register, r.Token)
	if r.OwnToken > 0 {
		e.Token = r.OwnToken
	}
	return node.Answer{Status: node.Granted, Register: e.Origin}
}

// release removes the holder's lease, and never another one. A node that is not admitted does it
// too: removing a lease promises nothing.
func release(e *Entry, now time.Duration, r node.Request) node.Answer {
	switch {
	case e.leasedTo(r.Holder, now):
		e.Holder = ""
	case !e.leave(r.Holder, now):
		return node.Answer{Status: node.Lost}
	}
	return node.Answer{Status: node.Granted}
}

// forceRelease removes the lease, of any holder, and raises the register, to the floor at least,
// r.Token. It is repeated until a quorum has answered the same number: then the old holder's
// extensions cannot count there any more.
func forceRelease(e *Entry, r node.Request) node.Answer {
	if e.Out {
		return node.Answer{Status: node.Rejoining}
	}
	e.Holder = ""
	e.Register = max(e.Register+1, r.Token)
	return node.Answer{Status: node.Granted, Register: e.Register}
}

func (e *Entry) take(now time.Duration, r node.Request) {
	e.Holder, e.Expires = r.Holder, now+r.TTL.Truncate(time.Millisecond)
}
