package rule

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Store is all that a node remembers, in the memory of a process. It has no clock and
// no mutex: what uses it has both. The zero Store is that of a node that was never used.
//
// An operation begins, is served and commits:
//
//	t := store.Begin(r.Name, now, reachable)
//	answer, notify := rule.Serve(&t.Entry, t, now, r)
//	t.Commit()
type Store struct {
	Leases    map[string]Lease       // by name; some may have expired
	Registers map[int]fence.Token    // by stripe
	Queues    map[string]QueueRecord // by name; some may have expired
	Out       bool                   // as in Entry
	Boot      string                 // the boot by whose clock it counts, see InBoot; "": its clock never begins anew

	sweepAt int // number of leases and queues that starts the next sweep
}

// Lease is who has a name in a Store, and until when.
type Lease struct {
	Holder  node.Holder
	Expires time.Duration
	Origin  fence.Token // as in Entry
	Token   fence.Token // as in Entry
}

// QueueRecord is who waits for a name in a Store, and until when that is remembered.
type QueueRecord struct {
	Waiters Waiters
	Expires time.Duration
}

// Operation is what a Store has about one name, during an operation on it. It is the
// Queue of that name.
type Operation struct {
	Entry
	Waiters
	QueueExpires time.Duration // until when the queue is remembered

	store     *Store
	name      string
	now       time.Duration
	reachable func(waiter string) bool
}

var _ Queue = (*Operation)(nil)

// Begin returns what is known about a name at now. Reachable is Queue.Reachable. What
// is served has to be committed: the queue is the Store's own, and no copy.
func (s *Store) Begin(name string, now time.Duration, reachable func(waiter string) bool) *Operation {
	queue := s.Queues[name]
	if now >= queue.Expires {
		queue = QueueRecord{}
	}
	return &Operation{
		Entry:   s.entry(name),
		Waiters: queue.Waiters, QueueExpires: queue.Expires,
		store: s, name: name, now: now, reachable: reachable,
	}
}

// InBoot tells a Store that outlives the boot of its machine (node/clock/boot) in which boot it is
// used. Leases and queues of another boot go. Their times say nothing on a clock that has begun
// anew, and the processes that had them ended with that boot. Registers stay. It is called before
// Begin.
func (s *Store) InBoot(id string) {
	if s.Boot != id {
		s.Boot, s.Leases, s.Queues, s.sweepAt = id, nil, nil, 0
	}
}

func (s *Store) entry(name string) Entry {
	l := s.Leases[name]
	return Entry{l.Holder, l.Expires, l.Origin, l.Token, s.Registers[node.Stripe(name)], s.Out}
}

// Renew implements Queue.
func (o *Operation) Renew() { o.QueueExpires = o.now + QueueExpiry }

// Reachable implements Queue.
func (o *Operation) Reachable(waiter string) bool { return o.reachable(waiter) }

// Commit stores what the operation has left.
func (o *Operation) Commit() {
	s := o.store
	s.make()
	if o.Register > 0 {
		s.Registers[node.Stripe(o.name)] = o.Register
	}
	if o.Leased(o.now) {
		s.Leases[o.name] = Lease{o.Holder, o.Entry.Expires, o.Origin, o.Token}
	} else {
		delete(s.Leases, o.name)
	}
	if len(o.Waiters) > 0 {
		s.Queues[o.name] = QueueRecord{o.Waiters, o.QueueExpires}
	} else {
		delete(s.Queues, o.name)
	}
	s.sweep(o.now)
}

// Lease returns what an operator sees of a name at now.
func (s *Store) Lease(name string, now time.Duration) node.Lease {
	e := s.entry(name)
	return e.Lease(name, now)
}

// Waiting returns what an operator sees of the first waiters in the queue of a name, at most limit,
// and how many there are.
func (s *Store) Waiting(name string, now time.Duration, limit int) (first []node.Waiter, all int) {
	queue := s.Queues[name]
	if now >= queue.Expires {
		return nil, 0
	}
	for _, at := range queue.Waiters[:min(limit, len(queue.Waiters))] {
		first = append(first, node.WaiterOf(at, now))
	}
	return first, len(queue.Waiters)
}

// All returns what an operator sees of all names with a prefix that are leased at now,
// in the order of the names.
func (s *Store) All(prefix string, now time.Duration) (all []node.Lease) {
	for name := range s.Leases {
		if l := s.Lease(name, now); l.Leased && strings.HasPrefix(name, prefix) {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b node.Lease) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Raise makes the registers at least those of tokens, by stripe.
func (s *Store) Raise(tokens map[int]fence.Token) {
	s.make()
	for stripe, token := range tokens {
		s.Registers[stripe] = max(s.Registers[stripe], token)
	}
}

// make makes the maps that are missing.
func (s *Store) make() {
	if s.Leases == nil {
		s.Leases = map[string]Lease{}
	}
	if s.Registers == nil {
		s.Registers = map[int]fence.Token{}
	}
	if s.Queues == nil {
		s.Queues = map[string]QueueRecord{}
	}
}

const firstSweep = 64

// sweep drops expired leases and queues whenever their number has doubled since the last sweep. The
// memory stays within twice of what is live, and each costs a constant share of a sweep.
func (s *Store) sweep(now time.Duration) {
	if len(s.Leases)+len(s.Queues) < max(firstSweep, s.sweepAt) {
		return
	}
	maps.DeleteFunc(s.Leases, func(_ string, l Lease) bool { return l.Expires <= now })
	maps.DeleteFunc(s.Queues, func(_ string, q QueueRecord) bool { return q.Expires <= now })
	s.sweepAt = 2 * (len(s.Leases) + len(s.Queues))
}
