package sim

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// How the faults of faults.go that take more than a line are done to the world.

// force is what an operator does to free a name. It takes the lease away at all nodes that it
// reaches, again where too little was answered.
func (w *world) force(name int) {
	var reached core.Set
	for i, n := range w.nodes {
		if !n.down && n.votes() && w.now >= n.isolated {
			reached = reached.With(i)
		}
	}
	if reached.Len() < core.Quorum(len(w.nodes)) {
		return
	}
	w.count(forced)
	w.note("an operator takes name %[1]d away", name, 0, 0, 0)
	w.forceAgain(name, w.steps.Forces(name), reached, make([]fence.Token, len(w.nodes)), 10)
}

// forceAgain makes a pass of it, and so many more at most.
func (w *world) forceAgain(name int, operator uint64, reached core.Set, answers []fence.Token, more int) {
	to, floor := w.rules.force(answers)
	if to == 0 {
		w.steps.Forced(name, operator, floor)
	}
	if to == 0 || more == 0 {
		return
	}
	for i, n := range w.nodes {
		if (to & reached).Has(i) {
			w.after(w.upTo(5*time.Millisecond), func() {
				if !n.down {
					w.steps.Force(operator)
					answers[i] = n.serve(node.Request{Op: node.ForceRelease, Name: w.names[name], Token: floor}, 0).Register
				}
			})
		}
	}
	w.after(6*time.Millisecond, func() { w.forceAgain(name, operator, reached, answers, more-1) })
}

// crash takes a node down. No more than a minority is without its memory at a time, unless the run
// breaks that. The tokens rest on a majority with its memory. Nor is any where clocks are stepped,
// since the quarantine is measured by them.
func (w *world) crash(n *server, f Fault, until time.Duration) {
	if n.down {
		return
	}
	if f != crashed && !w.mayForget(n) {
		return
	}
	w.count(f)
	w.note("node %[1]d goes down, fault %[2]d", n.id, int(f), 0, uint64(until))
	n.crash(f)
	w.at(until, n.restart)
}

// stall has nodes carry out nothing for up to a quarter of the shortest TTL.
func (w *world) stall(nodes core.Set) {
	if w.now < w.stallAgain {
		return
	}
	until := min(w.now+w.wide(w.shortest()/4), w.quietAt)
	w.stallAgain = until + w.maxTTL // what came meanwhile is carried out by then
	w.count(stalled)
	w.note("nodes %04[1]b stall until %[4]d", int(nodes), 0, 0, uint64(until))
	for i, n := range w.nodes {
		if nodes.Has(i) {
			n.busy = max(n.busy, until)
		}
	}
	for _, c := range w.clients {
		for _, l := range c.held {
			l.stalls(until)
		}
	}
}

// stalls notes the validity of a lock that was given, and not extended yet, if it is not longer
// than a stall and a second.
func (l *lock) stalls(until time.Duration) {
	if end := l.attempt.Until(); end == l.given && l.c.clock.truth(end) < until+time.Second {
		l.brief = end
	}
}

// wipe has a store forget everything while it is up.
func (w *world) wipe(n *server) {
	w.count(wiped)
	w.note("the store of node %[1]d is wiped", n.id, 0, 0, 0)
	identity := n.identity
	n.become(memory{}, node.Unused)
	if n.kind.flushes {
		n.identity = identity
	}
}

// restore puts something that was copied from a store in the place of the store: a backup, or a
// replica that lagged behind. A copy is one of now.
func (w *world) restore(f Fault, n *server) {
	backup, age := n.memory.clone(), time.Duration(0)
	if f != copied {
		age = w.wide(20 * time.Second)
	}
	w.after(age, func() {
		if w.quiet || n.down || !w.mayForget(n) {
			return
		}
		w.count(f)
		w.note("the store of node %[1]d is replaced by what it was %[3]d ago, fault %[2]d", n.id, int(f), uint64(age), 0)
		if f == setBack {
			n.become(backup, node.SetBack)
			return
		}
		n.become(backup, node.Replaced)
		n.breakSubscriptions()
	})
}

// mayForget reports whether a node may lose its memory now.
func (w *world) mayForget(n *server) bool {
	if !w.rests(registersSurvive) {
		return true
	}
	out := 0
	for _, other := range w.nodes {
		if !other.hasKept() && other != n {
			out++
		}
	}
	return w.rests(steadyClocks) && out < len(w.nodes)-core.Quorum(len(w.nodes))
}

func (w *world) pause(until time.Duration) {
	c := w.someClient()
	w.count(paused)
	if until-w.now >= c.ttl {
		w.count(pausedForTTL)
	}
	w.note("client %[1]d is paused until %[4]d", c.id, 0, 0, uint64(until))
	c.pausedUntil = max(c.pausedUntil, until)
	c.healing.Absent(until)
}

// close ends a client's process in order. It closes its Locker, which waits for what is under way,
// and gives no lock back.
func (w *world) close(c *client) {
	if c.closing {
		return
	}
	w.count(closed)
	w.note("client %[1]d is closed", c.id, 0, 0, 0)
	c.closing = true
	c.spawn(func() {
		c.shell.Close(func() {
			c.after(time.Millisecond, func() {
				for name, all := range c.waiting {
					if len(all) > 0 {
						w.violate("left over", fmt.Sprintf("client %d was closed, and %d still wait for name %d", c.id, len(all), name))
					}
				}
				w.replace(c)
			})
		})
	})
}

// replace starts a new process in the place of a client's.
func (w *world) replace(c *client) {
	for _, l := range c.held {
		w.validity.Ends(l.name, l.id)
	}
	id, epoch := c.identity, c.epoch
	for _, n := range w.nodes {
		gone := func() { n.unsubscribe(id) }
		// A process that ends closes its connections; a machine that fails does not.
		if w.chance(700_000) {
			w.after(w.upTo(time.Millisecond), gone)
		} else {
			w.after(w.wide(5*time.Second), gone)
		}
	}
	for _, u := range w.users[c.id] {
		w.progress.Ends(u.id)
	}
	w.begin(c, epoch+1)
	for _, u := range w.users[c.id] {
		c.at(w.now+w.wide(2*time.Second), u.next)
	}
}

// giveUp has one caller give up.
func (w *world) giveUp(time.Duration) {
	users := w.users[w.someClient().id]
	users[w.rng.IntN(len(users))].giveUp()
}

// cut cuts some nodes off from all clients and from each other.
func (w *world) cut(f Fault, nodes core.Set, until time.Duration, dirs ...int) {
	w.count(f)
	w.note("cut %[1]d of the nodes %04[2]b", int(f), int(nodes), 0, uint64(until))
	for _, c := range w.clients {
		c.block(nodes, until, dirs...)
	}
	for i, n := range w.nodes {
		if nodes.Has(i) {
			n.isolated = until
		}
	}
}

// cutRing has each client reach some nodes, not the same.
func (w *world) cutRing(until time.Duration) {
	w.count(ringCut)
	reach := 1 + w.rng.IntN(len(w.nodes))
	w.note("each client reaches %[1]d nodes of the ring", reach, 0, 0, uint64(until))
	for _, c := range w.clients {
		rest := w.all()
		for i := range reach {
			rest &^= core.Set(0).With((c.id + i) % len(w.nodes))
		}
		c.block(rest, until, toNode, toClient)
	}
}

// stepClock steps a node's clock, or those of all nodes, or that by which a client counts
// its validity.
func (w *world) stepClock(of Fault) {
	if w.rests(steadyClocks) {
		return
	}
	w.count(of)
	var step time.Duration
	if of == clientStepped {
		c := w.someClient()
		step = w.between(-2*w.maxTTL, 2*w.maxTTL)
		w.note("the clock of client %[1]d is stepped by %[3]d", c.id, 0, uint64(step), 0)
		c.clock.offset += step
	} else {
		n := w.someNode()
		step = w.between(-2*w.maxTTL, 2*w.maxTTL)
		together := w.chance(500_000)
		w.note("the clock of node %[1]d, or of all, is stepped by %[3]d", n.id, 0, uint64(step), 0)
		for _, other := range w.nodes {
			if together || other == n {
				other.clock.offset += step
			}
		}
	}
	// What was leased lasts longer then.
	w.remains.longest += max(-step, 0)
	w.progress.Bound += max(-step, 0)
}
