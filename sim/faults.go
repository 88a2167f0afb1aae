package sim

import (
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// Fault is a kind of thing that goes wrong.
type Fault int

// What can go wrong. All but the last are what fenlock promises to bear.
const (
	requestLost Fault = iota
	replyLost         // of a request that was executed
	slow              // a message that takes longer than most timeouts
	reordered         // a request that was overtaken by a later one
	oneNodeCut        // for all clients
	majorityCut
	oneWayCut // requests, or answers only
	clientCut // from all nodes
	crashed   // without a loss
	emptied   // crashed, and lost its memory
	paused
	pausedForTTL // or longer
	subscriptionBroken
	callLost
	gaveUpTrying  // with an attempt under way
	gaveUpWaiting // between attempts
	killed        // a client's process
	wallStepped   // a client's wall clock
	staleWrite    // a write that the guard refused
	nodeStepped   // a node's clock: breaks an assumption
	faults
)

var faultNames = [faults]string{"request lost", "reply lost", "slow message", "reordered request", "one node cut off",
	"majority cut off", "one-way cut", "client cut off", "node crashed", "node lost its memory", "client paused",
	"client paused for a TTL", "subscription broken", "call lost", "gave up trying", "gave up waiting", "client killed",
	"wall clock stepped", "stale write", "node's clock stepped"}

func (f Fault) String() string { return faultNames[f] }

// Strikes count how often a kind of fault struck, and how often of these while
// somebody held a lock.
type Strikes struct{ All, Held int }

func (w *world) strike(f Fault) {
	w.faults[f].All++
	if w.validity.Held(w.now) {
		w.faults[f].Held++
	}
}

// profile is what one run is like.
type profile struct {
	loss, tail int  // of messages, in a million
	ordered    bool // messages of a connection keep their order
	pace       time.Duration
	steps      bool  // of nodes' clocks
	unset      bool  // the clients' wall clocks: all proposals are low
	only       Fault // if it is not the first kind, nothing else is done to the world
	// The usual delay of a message, and the longest rest and hold of a user.
	trip, rest, hold time.Duration
}

func (w *world) newProfile() profile {
	pick := func(of ...int) int { return of[w.rng.IntN(len(of))] }
	return profile{
		loss:    pick(0, 0, 5_000, 20_000, 100_000),
		tail:    pick(0, 2_000, 10_000, 50_000),
		ordered: w.chance(500_000),
		pace:    time.Duration(pick(150, 400, 1500, 4000)) * time.Millisecond,
		steps:   w.chance(150_000),
		unset:   w.chance(300_000),
		trip:    time.Duration(pick(300, 500, 3_000, 20_000)) * time.Microsecond,
		rest:    time.Duration(pick(30, 500, 2_000)) * time.Millisecond,
		hold:    time.Duration(pick(20, 2_000, 10_000, 10_000)) * time.Millisecond,
	}
}

// trouble lets something go wrong, again and again until the quiet begins.
func (w *world) trouble() {
	w.after(w.upTo(2*w.profile.pace), func() {
		if w.quiet {
			return
		}
		w.mishap()
		w.trouble()
	})
}

func (w *world) mishap() {
	until := min(w.now+w.wide(3*w.maxTTL), w.quietAt)
	all := core.Set(1)<<len(w.nodes) - 1
	c := w.clients[w.rng.IntN(len(w.clients))]
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	cut := func(f Fault, nodes core.Set, dirs ...int) {
		w.strike(f)
		w.note("cut %[1]d of the nodes %04[2]b", int(f), int(nodes), 0, uint64(until))
		for _, c := range w.clients {
			for _, dir := range dirs {
				w.block(c, nodes, dir, until)
			}
		}
		for i, n := range w.nodes {
			if nodes.Has(i) {
				n.isolated = until
			}
		}
	}
	kind := Fault(w.rng.IntN(int(faults)))
	if w.profile.only != requestLost {
		kind = w.profile.only
	}
	switch kind {
	case oneNodeCut:
		cut(oneNodeCut, core.Set(0).With(n.id), toNode, toClient)
	case majorityCut:
		nodes := core.Set(0)
		for _, i := range w.rng.Perm(len(w.nodes))[:core.Quorum(len(w.nodes))] {
			nodes = nodes.With(i)
		}
		cut(majorityCut, nodes, toNode, toClient)
	case oneWayCut:
		cut(oneWayCut, core.Set(w.rng.IntN(int(all))+1), w.rng.IntN(2))
	case clientCut:
		w.strike(clientCut)
		w.note("client %[1]d is cut off", c.id, 0, 0, uint64(until))
		w.block(c, all, toNode, until)
		w.block(c, all, toClient, until)
	case crashed:
		w.crash(n, true, until)
	case emptied:
		w.crash(n, false, until)
	case paused, pausedForTTL:
		w.pause(c, until)
	case subscriptionBroken:
		if len(n.subs) > 0 {
			w.strike(subscriptionBroken)
			w.breakSubscription(n, n.subs[w.rng.IntN(len(n.subs))])
		}
	case gaveUpTrying, gaveUpWaiting:
		if c.user.a != nil {
			c.user.giveUp()
		}
	case killed:
		w.kill(c)
	case wallStepped:
		w.strike(wallStepped)
		c.wall += w.between(-time.Hour, time.Hour)
	case nodeStepped:
		if w.profile.steps {
			w.strike(nodeStepped)
			step, together := w.between(-2*w.maxTTL, 2*w.maxTTL), w.chance(500_000)
			w.note("the clock of node %[1]d, or of all, is stepped by %[3]d", n.id, 0, uint64(step), 0)
			for _, other := range w.nodes {
				if together || other == n {
					other.clock.offset += step
				}
			}
			// What it has leased lasts longer then.
			w.remains.longest += max(-step, 0)
			w.progress.Bound += max(-step, 0)
		}
	case reordered: // a connection that is opened anew overtakes the old one
		for i := range c.links {
			c.links[i].last = [2]time.Duration{}
		}
	}
}

// crash takes a node down. No more than a minority is without its memory at a
// time: that a majority is not is what the tokens rest on. Nor is any where
// clocks are stepped, since the quarantine is measured by them.
func (w *world) crash(n *node, durable bool, until time.Duration) {
	if n.down {
		return
	}
	if !durable {
		out := 0
		for _, other := range w.nodes {
			if other.out && other != n {
				out++
			}
		}
		if w.profile.steps || out >= len(w.nodes)-core.Quorum(len(w.nodes)) {
			return
		}
	}
	f := crashed
	if !durable {
		f = emptied
	}
	w.strike(f)
	w.note("node %[1]d goes down, fault %[2]d", n.id, int(f), 0, uint64(until))
	n.crash(durable)
	w.at(until, n.restart)
}

func (w *world) pause(c *client, until time.Duration) {
	w.strike(paused)
	if until-w.now >= c.ttl {
		w.strike(pausedForTTL)
	}
	w.note("client %[1]d is paused until %[4]d", c.id, 0, 0, uint64(until))
	c.pausedUntil = max(c.pausedUntil, until)
}

// kill ends a client's process, and starts a new one.
func (w *world) kill(c *client) {
	w.strike(killed)
	w.note("client %[1]d is killed", c.id, 0, 0, 0)
	for _, l := range c.held {
		w.validity.Ends(l.name, l.id)
	}
	id, epoch := c.lines.id, c.epoch
	for _, n := range w.nodes {
		gone := func() { n.unsubscribe(id) }
		// A process that ends closes its connections; a machine that fails does not.
		if w.chance(700_000) {
			w.after(w.upTo(time.Millisecond), gone)
		} else {
			w.after(w.wide(5*time.Second), gone)
		}
	}
	w.progress.Ends(c.id)
	c.begin(epoch + 1)
	w.atOf(c, w.now+w.wide(2*time.Second), c.user.next)
}
