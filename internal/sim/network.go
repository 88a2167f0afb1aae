package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// The two directions of a link.
const (
	toNode = iota
	toClient
)

// link is a client's connection to a node.
type link struct {
	blocked [2]time.Duration // until when nothing passes, by direction
	last    [2]time.Duration // arrival of the last message, if messages keep their order
	served  uint64           // the latest request that the node has executed
}

// subscription is a node's way to tell a client's waiters.
type subscription struct {
	id    string
	c     *client
	epoch int
	up    bool // otherwise it is broken, and the node does not know
}

func (w *world) lost() bool { return !w.quiet && w.chance(w.profile.loss) }

func (w *world) delay() time.Duration {
	d := 50*time.Microsecond + w.upTo(w.profile.trip)
	if !w.quiet && w.chance(w.profile.tail) {
		late := w.wide(3 * w.maxTTL)
		if late > 25*time.Millisecond {
			w.count(slow)
		}
		d += late
	}
	return d
}

// arrival is when a message that is sent now gets to the other end of a link,
// false if it never does.
func (w *world) arrival(l *link, dir int) (time.Duration, bool) {
	if w.lost() {
		return 0, false
	}
	at := w.now + w.delay()
	if w.now < l.blocked[dir] {
		// A connection that lives through a partition delivers after it.
		if w.chance(500_000) {
			return 0, false
		}
		at = l.blocked[dir] + w.delay()
	}
	if !w.quiet && at > w.quietAt {
		at = w.quietAt + w.upTo(time.Millisecond)
	}
	if w.profile.ordered {
		at = max(at, l.last[dir]+1)
		l.last[dir] = at
	}
	return at, true
}

// request sends a request to a node. Done is told the answer unless it, or the
// request, is lost. If the node does not vote, the client has it admitted, and then sends the
// request once more if there is time for that.
func (c *client) request(i int, r node.Request, done func(node.Answer)) {
	sent := c.now()
	released := &c.admissions[i].released
	if r.Op == node.Release {
		if *released == nil {
			*released = make(map[node.Holder]bool)
		}
		(*released)[r.Holder] = true
	}
	c.send(i, r, false, func(a node.Answer) {
		if a.Status != node.Rejoining {
			done(a)
			return
		}
		c.admit(i, func(votes bool) {
			if votes && c.now()-sent < c.nodeTimeout && !(*released)[r.Holder] {
				c.send(i, r, true, done)
			} else {
				done(a)
			}
		})
	})
}

// send sends a request once. No release overtakes what was sent again.
func (c *client) send(i int, r node.Request, again bool, done func(node.Answer)) {
	w, n, l, epoch, sent := c.w, c.w.nodes[i], &c.links[i], c.epoch, c.w.now
	known := 0
	if c.batches {
		known = c.known[i]
	}
	// Clocks drift, and the answer has to get to the caller.
	inTime := func(at time.Duration) bool { return at-sent < c.nodeTimeout*9/10 }
	missed := func() {
		if c.epoch == epoch {
			c.missed(i, sent)
		}
	}
	c.sent++
	seq := c.sent
	at, ok := w.arrival(l, toNode)
	if sentAgain := &c.admissions[i].sentAgain; again {
		if *sentAgain == nil {
			*sentAgain = make(map[node.Holder]time.Duration)
		}
		(*sentAgain)[r.Holder] = at
	} else if r.Op == node.Release {
		at = max(at, (*sentAgain)[r.Holder]+1)
	}
	if !ok || !inTime(at) {
		missed()
	}
	if !ok {
		w.count(requestLost)
		return
	}
	if !w.quiet && w.chance(w.profile.twice) {
		if again := at + w.wide(3*w.maxTTL); again < w.quietAt {
			w.at(again, func() {
				if !n.down {
					w.count(duplicated)
					n.serve(r, known)
				}
			})
		}
	}
	execute := func() {
		var a node.Answer
		is := 0
		if n.down {
			missed()
			if w.chance(500_000) {
				return // no answer; otherwise a refused connection, which is soon known
			}
		} else {
			if seq < l.served {
				w.count(reordered)
			}
			l.served = max(l.served, seq)
			a, is = n.serve(r, known), n.identity
			if w.served != nil {
				w.served(c.id, i, r, a)
			}
			w.note("node %[1]d: %[2]d of client %[3]d, status %[4]d", i, int(r.Op), uint64(c.id), uint64(a.Status))
		}
		at, ok := w.arrival(l, toClient)
		if !ok || !inTime(at) || a.Status == node.Rejoining || leftOver(n, r, a) {
			missed()
		}
		if !ok {
			w.count(replyLost)
			return
		}
		if c.epoch == epoch {
			w.atOf(c, at+w.upTo(20*time.Microsecond), func() {
				switch {
				case known == 0:
					c.known[i] = is
				case known != is || a.Status == node.Rejoining:
					c.known[i] = 0
				}
				done(a)
			})
		}
	}
	w.at(at, func() {
		if turn := n.turn(); turn > w.now {
			w.at(turn, execute)
		} else {
			execute()
		}
	})
}

// turn returns when a request is carried out that has come now: after those before it.
func (n *server) turn() time.Duration {
	n.busy = max(n.busy, n.w.now) + n.cost
	return n.busy
}

// subscribe makes a client's waiters reachable on a node, however long it takes.
func (c *client) subscribe(i int, then func()) {
	w, n, id, epoch := c.w, c.w.nodes[i], c.identity, c.epoch
	again := func() {
		w.atOf(c, w.now+w.between(50*time.Millisecond, time.Second), func() { c.subscribe(i, then) })
	}
	l := &c.links[i]
	if n.down || w.now < max(l.blocked[toNode], l.blocked[toClient]) || w.lost() {
		again()
		return
	}
	w.after(w.delay(), func() {
		switch {
		case c.epoch != epoch:
			return
		case n.down:
			again()
			return
		}
		n.unsubscribe(id)
		n.subs = append(n.subs, &subscription{id: id, c: c, epoch: epoch, up: true})
		at, _ := w.arrival(l, toClient)
		w.atOf(c, max(at, w.now), then)
	})
}

func (n *server) unsubscribe(id string) {
	n.subs = slices.DeleteFunc(n.subs, func(s *subscription) bool { return s.id == id })
}

func (n *server) subscription(waiter string) *subscription {
	id, _, _ := strings.Cut(waiter, ":")
	for _, s := range n.subs {
		if s.id == id {
			return s
		}
	}
	return nil
}

// notify tells a waiter that a node has reserved the name for it.
func (w *world) notify(n *server, waiter string) {
	s := n.subscription(waiter)
	w.note("node %[1]d notifies a waiter of client %[2]d", n.id, s.c.id, 0, 0)
	if w.rules.notifyLost() {
		return
	}
	at, ok := w.arrival(&s.c.links[n.id], toClient)
	if !s.up || !ok {
		w.count(notificationLost)
		w.breakSubscription(n, s)
		return
	}
	w.at(at, func() {
		switch {
		case s.epoch != s.c.epoch:
		case s.up:
			s.c.spawn(func() { s.c.notified(n.id, waiter) })
		default:
			w.count(notificationLost)
		}
	})
}

// breakSubscription breaks a connection that both ends notice some time later.
func (w *world) breakSubscription(n *server, s *subscription) {
	if !s.up {
		return
	}
	s.up = false
	w.after(w.wide(5*time.Second), func() {
		n.subs = slices.DeleteFunc(n.subs, func(other *subscription) bool { return other == s })
	})
	w.resubscribe(n, s)
}

func (w *world) resubscribe(n *server, s *subscription) {
	c := s.c
	if s.epoch == c.epoch {
		w.atOf(c, w.now+w.wide(3*time.Second), func() {
			c.subscribe(n.id, func() { c.notified(n.id, "") })
		})
	}
}

// breakSubscriptions is the end of all connections of a node that went down.
func (w *world) breakSubscriptions(n *server) {
	for _, s := range n.subs {
		if s.up {
			s.up = false
			w.resubscribe(n, s)
		}
	}
	n.subs = nil
}

// block cuts a client's links to some nodes.
func (w *world) block(c *client, nodes core.Set, until time.Duration, dirs ...int) {
	for i := range w.nodes {
		for _, dir := range dirs {
			if nodes.Has(i) {
				c.links[i].blocked[dir] = max(c.links[i].blocked[dir], until)
			}
		}
	}
}
