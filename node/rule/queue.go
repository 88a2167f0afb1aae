package rule

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Queue is the waiter queue of one name, as an engine has stored it: Serve reads and
// changes it during one operation. The queue decides who tries next, the lease
// decides who holds: whatever happens to a queue, the operations keep their promises.
//
// Its methods are called only where the answer depends on the queue: most operations on a name
// without waiters call Head, or nothing. So an engine need not read anything before. An error of
// the store is for the engine to keep until Serve has returned.
type Queue interface {
	// Head returns the waiter that is first, "" if there is none: by stamp, equal
	// ones by the waiters' bytes.
	Head() string
	// Ahead returns how many are before a waiter, and true; of one that is not in the
	// queue, and of "", how many there are, and false.
	Ahead(waiter string) (count int, in bool)
	// Insert puts a waiter into the queue that is not in it.
	Insert(p node.Place)
	// Remove takes a waiter out of the queue, if it is in it.
	Remove(waiter string)
	// Renew has the queue remembered for QueueExpiry from now on. It may be a second
	// less, so that not each question has to be written. It follows each Insert.
	Renew()
	// Reachable reports whether a waiter can be told something now. Those who are to be told
	// are among those that it was asked about.
	Reachable(waiter string) bool
}

// enqueue puts a waiter into the queue, once: one who comes again keeps the place that it has. A
// full queue takes no waiter; a waiter that is not in it polls. It returns how many are ahead.
func enqueue(q Queue, p node.Place) (ahead int) {
	ahead, in := q.Ahead(p.Waiter)
	if p.Waiter == "" {
		return ahead
	}
	if !in && ahead < MaxQueue {
		q.Insert(p)
		ahead, _ = q.Ahead(p.Waiter)
	}
	q.Renew()
	return ahead
}

// dequeue takes a waiter out of the queue, unless it is empty.
func dequeue(q Queue, waiter string) {
	if waiter != "" {
		q.Remove(waiter)
	}
}

// giveWay lets those go first whose turn it is, before a client acquires. A name that is reserved
// for the asker is the asker's, also if others have come before it meanwhile. A name that is free
// goes to the first in the queue. If the asker is the first, it has the name. Otherwise the name is
// reserved for the first waiter, which is returned.
func giveWay(e *Entry, q Queue, now time.Duration, asker node.Place) (notify []string) {
	switch {
	case e.Out:
	case e.reservedFor(asker.Waiter, now):
		e.Holder = ""
	case !e.Leased(now) && q.Head() != "":
		enqueue(q, asker)
		return reserve(e, q, now, asker.Waiter, 0)
	}
	return nil
}

// giveUp ends the turn of a waiter that has released. It reports whether the name was reserved for
// it, or given to it, which it may not have heard. With a stamp the waiter goes on waiting, and is
// put into the queue again: its attempt has failed. Without, it leaves the queue.
func giveUp(e *Entry, q Queue, now time.Duration, r node.Request) (freed bool) {
	p := r.Place
	if p.Waiter == "" {
		return false
	}
	given := p.Stamp == 0 && e.Leased(now) && e.Holder.GivenTo(p.Waiter) && r.Holder != node.Given(p.Waiter, 0)
	if given || e.reservedFor(p.Waiter, now) {
		e.Holder, freed = "", true
	} else if e.leave(node.Reserved(p.Waiter), now) {
		freed = true
	}
	if p.Stamp == 0 {
		dequeue(q, p.Waiter)
	} else {
		enqueue(q, p)
	}
	return freed
}

// reserve takes the first whom it can reach out of the queue, and reserves the name for that one;
// of those who want to share it, all that come one after the other. They are returned. Those who
// cannot be reached are gone: they are dropped. It stops at self, which need not be told: it asks
// right now, or would only try in vain what has just failed. With a number for the next, the name
// is given to an exclusive waiter, instead of reserved: see give.
func reserve(e *Entry, q Queue, now time.Duration, self string, next fence.Token) (notify []string) {
	s, shared := e.readers(now)
	for first := q.Head(); shared && first != "" && first != self; first = q.Head() {
		reads := isReader(first)
		if reads && len(s.all) >= MaxReaders {
			break
		}
		reachable := q.Reachable(first)
		if reachable && !reads && len(s.all) > 0 {
			break // it has to wait for those who share the name, and who comes has to wait for it
		}
		q.Remove(first)
		switch {
		case !reachable:
		case reads:
			s.add(reader{holder: node.Reserved(first), expires: now + ReservationTTL})
			notify = append(notify, first)
		case next > 0 && !e.Out:
			return append(notify, give(e, now, first, next))
		default:
			e.Holder, e.Expires = node.Reserved(first), now+ReservationTTL
			return append(notify, first)
		}
	}
	if len(notify) > 0 {
		e.share(s)
	}
	return notify
}

// give leases the name to a waiter, as an acquire of its own would that comes at this moment, and
// promises it a number. So every argument about acquires holds for what is given. The lease is as
// short as a reservation: who hangs is passed over as soon. It returns what the waiter is told.
func give(e *Entry, now time.Duration, waiter string, proposal fence.Token) (notice string) {
	e.Register = max(e.Register+1, proposal)
	e.Holder, e.Expires = node.Given(waiter, e.Register), now+ReservationTTL
	e.Origin, e.Token = e.Register, 0
	return node.Notice{Waiter: waiter, Number: e.Register, Clock: now}.String()
}

func (e *Entry) reservedFor(waiter string, now time.Duration) bool {
	return waiter != "" && e.leasedTo(node.Reserved(waiter), now)
}

// noQueue is the queue of a node that keeps none.
type noQueue struct{}

func (noQueue) Head() string             { return "" }
func (noQueue) Ahead(string) (int, bool) { return 0, true }
func (noQueue) Insert(node.Place)        {}
func (noQueue) Remove(string)            {}
func (noQueue) Renew()                   {}
func (noQueue) Reachable(string) bool    { return false }
