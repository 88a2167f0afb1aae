package sim

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/check"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// The two directions of a link.
const (
	toNode = iota
	toClient
)

// errNoAnswer is that none came in time.
var errNoAnswer = errors.New("no answer")

// link is a client's connection to a node.
type link struct {
	blocked [2]time.Duration // until when nothing passes, by direction
	last    [2]time.Duration // arrival of the last message, if messages keep their order
	served  uint64           // the latest request that the node has executed
}

// endpoint is a process as the network sees it: a clock, a life, and connections to the nodes.
type endpoint struct {
	w     *run
	nodes []*server
	id    int
	clock clock
	life
	links []link
	sent  uint64 // requests

	ttl, nodeTimeout time.Duration

	identity string                // of its waiters
	notify   []func(waiter string) // by node
	conns    []conn                // by node
	batches  bool                  // it sends the identity that it knows with each request
	healing  check.Healing
}

// conn is what a process remembers of what it sent to a node.
type conn struct {
	known int // the store's identity, 0: it is not known
	// released are the holders that a release was sent for: what they asked for before is not sent
	// after it. An engine keeps such requests in order, or does not send them any more.
	released  map[node.Holder]bool
	sentAgain map[node.Holder]time.Duration // when what was sent again after an admission arrives
}

// subscription is a node's way to tell a process's waiters.
type subscription struct {
	id    string
	c     *endpoint
	epoch int
	up    bool // otherwise it is broken, and the node does not know
}

// now is the time on the process's clock.
func (c *endpoint) now() time.Duration { return c.clock.local(c.w.now) }

// at runs f at a time.
func (c *endpoint) at(t time.Duration, f func()) { c.w.atOf(&c.life, t, f) }

// spawn runs f in a goroutine of its own, as it were.
func (c *endpoint) spawn(f func()) { c.at(c.w.now+c.w.upTo(20*time.Microsecond), f) }

// after runs f when so much time has passed on the process's clock.
func (c *endpoint) after(d time.Duration, f func()) { c.at(c.clock.truth(c.now()+max(d, 0)), f) }

// notified takes what a node says.
func (c *endpoint) notified(node int, waiter string) {
	if notify := c.notify[node]; notify != nil {
		notify(waiter)
	}
}

// missed notes that a node has not answered a request in time, or that it does not vote. For all
// that the client can tell, it has been so since the request was sent.
func (c *endpoint) missed(node int, sent time.Duration) { c.healing.Missed(node, sent, c.w.now) }

// arrival is when a message that is sent now gets to the other end of a link,
// false if it never does.
func (w *run) arrival(l *link, dir int) (time.Duration, bool) {
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

// send sends a request once. No release overtakes what was sent again.
func (c *endpoint) send(i int, r node.Request, again bool, done func(node.Answer)) {
	w, n, l, conn, epoch, sent := c.w, c.nodes[i], &c.links[i], &c.conns[i], c.epoch, c.w.now
	known := 0
	if c.batches {
		known = conn.known
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
	if again {
		conn.sentAgain[r.Holder] = at
	} else if r.Op == node.Release {
		at = max(at, conn.sentAgain[r.Holder]+1)
	}
	if !ok || !inTime(at) {
		missed()
	}
	if !ok {
		w.count(requestLost)
		return
	}
	n.comesAgain(at, func() {
		w.count(duplicated)
		n.serve(r, known)
	})
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
		if !ok || !inTime(at) || a.Status == node.Rejoining || n.leftOver(r, a) {
			missed()
		}
		if !ok {
			w.count(replyLost)
			return
		}
		if c.epoch == epoch {
			c.at(at+w.upTo(20*time.Microsecond), func() {
				switch {
				case known == 0:
					c.conns[i].known = is
				case known != is || a.Status == node.Rejoining:
					c.conns[i].known = 0
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

// comesAgain has what comes to the node at a time come twice, by chance.
func (n *server) comesAgain(at time.Duration, carryOut func()) {
	w := n.w
	if w.quiet || !w.chance(w.profile.twice) {
		return
	}
	if again := at + w.wide(3*w.maxTTL); again < w.quietAt {
		w.at(again, func() {
			if !n.down {
				carryOut()
			}
		})
	}
}

// turn returns when a request is carried out that has come now: after those before it.
func (n *server) turn() time.Duration {
	n.busy = max(n.busy, n.w.now) + n.cost
	return n.busy
}

// subscribe makes a client's waiters reachable on a node, however long it takes.
func (c *endpoint) subscribe(i int, then func()) {
	w, n, id, epoch := c.w, c.nodes[i], c.identity, c.epoch
	again := func() {
		c.at(w.now+w.between(50*time.Millisecond, time.Second), func() { c.subscribe(i, then) })
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
		c.at(max(at, w.now), then)
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

// notify tells a waiter that the node has reserved the name for it.
func (n *server) notify(waiter string) {
	w, s := n.w, n.subscription(waiter)
	w.note("node %[1]d notifies a waiter of client %[2]d", n.id, s.c.id, 0, 0)
	if n.rules.notifyLost() {
		return
	}
	at, ok := w.arrival(&s.c.links[n.id], toClient)
	if !s.up || !ok {
		w.count(notificationLost)
		n.breakSubscription(s)
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
func (n *server) breakSubscription(s *subscription) {
	if !s.up {
		return
	}
	s.up = false
	n.w.after(n.w.wide(5*time.Second), func() {
		n.subs = slices.DeleteFunc(n.subs, func(other *subscription) bool { return other == s })
	})
	n.resubscribe(s)
}

func (n *server) resubscribe(s *subscription) {
	if c := s.c; s.epoch == c.epoch {
		c.at(n.w.now+n.w.wide(3*time.Second), func() {
			c.subscribe(n.id, func() { c.notified(n.id, "") })
		})
	}
}

// breakSubscriptions is the end of all connections of a node that went down.
func (n *server) breakSubscriptions() {
	for _, s := range n.subs {
		if s.up {
			s.up = false
			n.resubscribe(s)
		}
	}
	n.subs = nil
}

// block cuts the links to some nodes.
func (c *endpoint) block(nodes core.Set, until time.Duration, dirs ...int) {
	for i := range c.nodes {
		for _, dir := range dirs {
			if nodes.Has(i) {
				c.links[i].blocked[dir] = max(c.links[i].blocked[dir], until)
			}
		}
	}
}
