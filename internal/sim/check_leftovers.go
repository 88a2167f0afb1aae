package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// remains are what a run has left behind when its last event has happened.
type remains struct {
	longest time.Duration // a lease that was given at that time is gone after it
	// Attempts and waiters with numbers above these began when nothing failed
	// any more, so that nothing of them is left at once. What others left, ends
	// by itself.
	lastIdentity int
	oldIdentity  int               // the last one before it was quiet
	lastWaiter   map[string]uint64 // by client
}

// leftovers looks for what should not be there, in the processes too: so many waiters.
func (w *world) leftovers(inMemory func(*client) int) {
	r := &w.remains
	add := func(format string, args ...any) { w.violate("left over", fmt.Sprintf(format, args...)) }
	for _, n := range w.nodes {
		now := n.local()
		late := n.clock.local(w.now + max(r.longest, rule.QueueExpiry+time.Second))
		for _, name := range slices.Sorted(maps.Keys(n.store.Leases)) {
			l := n.store.Leases[name]
			if id, ok := number(l.Holder); ok && id > r.lastIdentity && now < l.Expires {
				add("node %d: name %q is still leased to %q", n.id, name, string(l.Holder))
			}
			if late < l.Expires {
				add("node %d: the lease of %q on name %q does not end", n.id, string(l.Holder), name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(n.store.Queues)) {
			q := n.store.Queues[name]
			if len(q.Waiters) > 0 && late < q.Expires {
				add("node %d: the queue of name %q is kept for ever", n.id, name)
			}
			for _, p := range q.Waiters {
				if now < q.Expires && r.recent(p) {
					add("node %d: waiter %q is still in the queue of name %q", n.id, p.Waiter, name)
				}
			}
		}
	}
	for _, c := range w.clients {
		if n := inMemory(c); n > 0 {
			add("client %d: %d waiters are not forgotten", c.id, n)
		}
		if n := len(c.held); n > 0 {
			add("client %d: %d locks have not ended", c.id, n)
		}
	}
}

func (r *remains) recent(p node.Place) bool {
	client, _, _ := strings.Cut(p.Waiter, ":")
	number, err := waiterNumber(p.Waiter)
	last, alive := r.lastWaiter[client]
	return err == nil && alive && number > last
}

// lookTwice looks for leases of attempts that began before it was quiet, in a calm world. What is
// not held some time later, when all of them are decided, has to be released soon, and not to last
// for a TTL.
func (w *world) lookTwice() {
	w.after(time.Second, func() {
		for _, n := range w.nodes {
			for _, name := range w.names {
				l := n.store.Leases[name]
				if !w.abandoned(l) {
					continue
				}
				w.after(time.Second/2, func() {
					if n.store.Leases[name] == l && n.local() < l.Expires {
						w.violate("left over", fmt.Sprintf("node %d: name %q is still leased to %q, which has ended",
							n.id, name, string(l.Holder)))
					}
				})
			}
		}
	})
}

// abandoned reports whether a lease is that of an old attempt that holds nothing.
func (w *world) abandoned(l rule.Lease) bool {
	id, ok := number(l.Holder)
	if !ok || id > w.remains.oldIdentity {
		return false
	}
	return !slices.ContainsFunc(w.clients, func(c *client) bool {
		return slices.ContainsFunc(c.held, func(held *lock) bool { return held.holder == l.Holder })
	})
}
