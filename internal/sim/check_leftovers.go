package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// remains are what a run has left behind when its last event has happened.
type remains struct {
	at      time.Duration // true time
	longest time.Duration // a lease that was given at that time is gone after it
	// Attempts and waiters with numbers above these began when nothing failed
	// any more, so that nothing of them is left at once. What others left, ends
	// by itself.
	lastIdentity int
	oldIdentity  int               // the last one before it was quiet
	lastWaiter   map[string]uint64 // by client
	nodes        []*server
	clients      []*client
	inMemory     map[*client]int // waiters
}

// leftovers returns what should not be there.
func (r remains) leftovers() (violations []string) {
	add := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	for _, n := range r.nodes {
		now := n.clock.local(r.at)
		late := n.clock.local(r.at + max(r.longest, rule.QueueExpiry+time.Second))
		for name, l := range n.leases {
			if id, ok := number(l.holder); ok && id > r.lastIdentity && now < l.expires {
				add("node %d: name %d is still leased to %q", n.id, name, l.holder)
			}
			if late < l.expires {
				add("node %d: the lease of %q on name %d does not end", n.id, l.holder, name)
			}
		}
		for name, q := range n.queues {
			if len(q.waiters) > 0 && late < q.expires {
				add("node %d: the queue of name %d is kept for ever", n.id, name)
			}
			for _, p := range q.waiters {
				if now < q.expires && r.recent(p) {
					add("node %d: waiter %q is still in the queue of name %d", n.id, p.Waiter, name)
				}
			}
		}
	}
	for _, c := range r.clients {
		if n := r.inMemory[c]; n > 0 {
			add("client %d: %d waiters are not forgotten", c.id, n)
		}
		if n := len(c.held); n > 0 {
			add("client %d: %d locks have not ended", c.id, n)
		}
	}
	return violations
}

func (r remains) recent(p node.Place) bool {
	client, text, _ := strings.Cut(p.Waiter, ":")
	number, err := strconv.ParseUint(text, 10, 64)
	last, alive := r.lastWaiter[client]
	return err == nil && alive && number > last
}

// lookTwice looks for leases of attempts that began before it was quiet, in a calm
// world: what is not held some time later, when all of them are decided, has to be
// released soon, and not to last for a TTL.
func (w *world) lookTwice() {
	w.after(time.Second, func() {
		for _, n := range w.nodes {
			for name, l := range n.leases {
				if w.abandoned(l) {
					w.after(time.Second/2, func() {
						if n.leases[name] == l && n.local() < l.expires {
							w.violate("left over", fmt.Sprintf("node %d: name %d is still leased to %q, which has ended", n.id, name, l.holder))
						}
					})
				}
			}
		}
	})
}

// abandoned reports whether a lease is that of an old attempt that holds nothing.
func (w *world) abandoned(l lease) bool {
	id, ok := number(l.holder)
	if !ok || id > w.remains.oldIdentity {
		return false
	}
	for _, c := range w.clients {
		if slices.ContainsFunc(c.held, func(held *lock) bool { return held.holder == l.holder }) {
			return false
		}
	}
	return true
}
