package sim

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// Fault is a kind of thing that goes wrong.
type Fault int

// What can go wrong. All but the last four are what fenlock promises to bear, and
// doubled requests; see assumption.
const (
	requestLost Fault = iota
	replyLost         // of a request that was executed
	slow              // a message that takes longer than most timeouts
	reordered         // a request that was overtaken by a later one
	duplicated        // a request that is executed twice
	oneNodeCut        // for all clients
	majorityCut
	oneWayCut // requests, or answers only
	ringCut   // each client reaches some nodes, not the same
	clientCut // from all nodes
	crashed   // without a loss
	emptied   // crashed, and lost its memory
	forgetful // crashed, and lost some of its memory
	paused
	pausedForTTL // or longer
	subscriptionBroken
	callLost
	gaveUpTrying  // with an attempt under way
	gaveUpWaiting // between attempts
	gaveUpQueued  // behind others of its process
	killed        // a client's process
	wallStepped   // a client's wall clock
	staleWrite    // a write that the guard refused
	nodeStepped   // a node's clock
	clientStepped // a client's clock, from which it counts its validity
	majorityLost  // the memories of a majority
	forced        // an operator takes a lock away
	faults
)

var faultNames = [faults]string{"request lost", "reply lost", "slow message", "reordered request", "doubled request",
	"one node cut off", "majority cut off", "one-way cut", "ring of cuts", "client cut off", "node crashed", "node lost its memory",
	"node lost some memory", "client paused", "client paused for a TTL", "subscription broken", "call lost", "gave up trying",
	"gave up waiting", "gave up in the queue", "client killed", "wall clock stepped", "stale write", "node's clock stepped",
	"client's clock stepped", "majority lost its memory", "lock released by force"}

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

// assumption is something that promises rest on. A run breaks at most one of the
// first three, and perhaps the last.
type assumption uint8

const (
	steadyClocks     assumption = 1 << iota // no clock of a node, or that validity is counted by, steps
	registersSurvive                        // of a majority
	nothingForced                           // no operator takes a lock away
	executedOnce                            // no request is executed twice: connections are TCP's, and nobody repeats
)

var assumptionNames = [...]string{"a clock does not step", "a majority of registers survives",
	"no operator takes a lock away", "no request is executed twice"}

// rests reports whether the run keeps an assumption.
func (w *world) rests(a assumption) bool { return w.profile.breaks&a == 0 }

// profile is what one run is like.
type profile struct {
	nodes, users      int  // users: of a process, at most
	loss, tail, twice int  // of messages, in a million
	ordered           bool // messages of a connection keep their order
	starters          bool // and the clients know it: the nodes are Starters
	pace              time.Duration
	breaks            assumption
	noLines           int   // so many of the nodes keep none
	unset             bool  // the clients' wall clocks: all proposals are low
	only              Fault // if it is not the first kind, nothing else is done to the world
	// The usual delay of a message, and the longest rest and hold of a user, who
	// usually rests for less unless it is idle.
	trip, rest, hold time.Duration
	idle             bool
	agree            bool // the nodes' clocks do
}

// calm reports whether nothing goes wrong but that callers give up: every message
// arrives, and no later than the node timeout.
func (p *profile) calm() bool {
	return (p.only == gaveUpTrying || p.only == gaveUpWaiting) && p.loss == 0 && p.tail == 0 && p.twice == 0 && p.trip < 25*time.Millisecond
}

func (w *world) newProfile() profile {
	pick := func(of ...int) int { return of[w.rng.IntN(len(of))] }
	p := profile{
		nodes:   pick(1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 5, 6, 7),
		users:   pick(1, 1, 2, 3),
		twice:   pick(0, 0, 0, 0, 1_000, 20_000),
		loss:    pick(0, 0, 5_000, 20_000, 100_000),
		tail:    pick(0, 2_000, 10_000, 50_000),
		ordered: w.chance(500_000),
		pace:    time.Duration(pick(150, 400, 1500, 4000)) * time.Millisecond,
		unset:   w.chance(300_000),
		trip:    time.Duration(pick(300, 500, 3_000, 20_000)) * time.Microsecond,
		rest:    time.Duration(pick(30, 500, 2_000, 20_000)) * time.Millisecond,
		idle:    w.chance(800_000),
		hold:    time.Duration(pick(20, 2_000, 10_000, 10_000)) * time.Millisecond,
	}
	p.starters = p.ordered && w.chance(500_000)
	if w.chance(250_000) {
		p.breaks = assumption(1 << w.rng.IntN(3))
	}
	if p.twice > 0 {
		p.breaks |= executedOnce
	}
	if p.idle {
		p.rest = 20 * time.Second
	}
	switch {
	case w.chance(50_000):
		p.noLines = p.nodes
	case w.chance(50_000):
		p.noLines = 1
	}
	return p
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
	case ringCut:
		w.strike(ringCut)
		reach := 1 + w.rng.IntN(len(w.nodes))
		w.note("each client reaches %[1]d nodes of the ring", reach, 0, 0, uint64(until))
		for _, c := range w.clients {
			rest := all
			for i := range reach {
				rest &^= core.Set(0).With((c.id + i) % len(w.nodes))
			}
			w.block(c, rest, toNode, until)
			w.block(c, rest, toClient, until)
		}
	case clientCut:
		w.strike(clientCut)
		w.note("client %[1]d is cut off", c.id, 0, 0, uint64(until))
		w.block(c, all, toNode, until)
		w.block(c, all, toClient, until)
	case crashed:
		w.crash(n, keptAll, until)
	case emptied:
		w.crash(n, keptNone, until)
	case forgetful:
		w.crash(n, keptSome, until)
	case majorityLost:
		if !w.rests(registersSurvive) {
			w.strike(majorityLost)
			for _, i := range w.rng.Perm(len(w.nodes))[:core.Quorum(len(w.nodes))] {
				w.crash(w.nodes[i], keptNone, until)
			}
		}
	case forced:
		if !w.rests(nothingForced) {
			w.force(w.rng.IntN(len(w.names)))
		}
	case paused, pausedForTTL:
		w.pause(c, until)
	case subscriptionBroken:
		if len(n.subs) > 0 {
			w.strike(subscriptionBroken)
			w.breakSubscription(n, n.subs[w.rng.IntN(len(n.subs))])
		}
	case gaveUpTrying, gaveUpWaiting, gaveUpQueued:
		c.users[w.rng.IntN(len(c.users))].giveUp()
	case killed:
		w.kill(c)
	case wallStepped:
		w.strike(wallStepped)
		c.wall += w.between(-time.Hour, time.Hour)
	case nodeStepped:
		if !w.rests(steadyClocks) {
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
	case clientStepped:
		if !w.rests(steadyClocks) {
			w.strike(clientStepped)
			step := w.between(-2*w.maxTTL, 2*w.maxTTL)
			w.note("the clock of client %[1]d is stepped by %[3]d", c.id, 0, uint64(step), 0)
			c.clock.offset += step
			w.remains.longest += max(-step, 0)
			w.progress.Bound += max(-step, 0)
		}
	case reordered: // a connection that is opened anew overtakes the old one
		for i := range c.links {
			c.links[i].last = [2]time.Duration{}
		}
	}
}

// force is what an operator does who wants a name free: it looks at all nodes
// that it reaches, and takes the lease away there.
func (w *world) force(name int) {
	var floor fence.Token
	var reached []*node
	for _, n := range w.nodes {
		if !n.down && !n.store.Out && w.now >= n.isolated {
			reached = append(reached, n)
			floor = max(floor, n.store.Registers[w.stripes[name]])
		}
	}
	if len(reached) < core.Quorum(len(w.nodes)) {
		return
	}
	w.strike(forced)
	w.note("an operator takes name %[1]d away", name, 0, uint64(floor), 0)
	for _, n := range reached {
		w.after(w.upTo(5*time.Millisecond), func() {
			if !n.down {
				n.forced(name, floor+1)
			}
		})
	}
}

// crash takes a node down. No more than a minority is without its memory at a
// time, unless the run breaks that: that a majority is not is what the tokens
// rest on. Nor is any where clocks are stepped, since the quarantine is measured
// by them.
func (w *world) crash(n *node, memory kept, until time.Duration) {
	if n.down {
		return
	}
	if memory != keptAll && w.rests(registersSurvive) {
		out := 0
		for _, other := range w.nodes {
			if other.store.Out && other != n {
				out++
			}
		}
		if !w.rests(steadyClocks) || out >= len(w.nodes)-core.Quorum(len(w.nodes)) {
			return
		}
	}
	f := [...]Fault{keptAll: crashed, keptSome: forgetful, keptNone: emptied}[memory]
	w.strike(f)
	w.note("node %[1]d goes down, fault %[2]d", n.id, int(f), 0, uint64(until))
	n.crash(memory)
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
	for _, u := range c.users {
		w.progress.Ends(u.id)
	}
	c.begin(epoch + 1)
	for _, u := range c.users {
		w.atOf(c, w.now+w.wide(2*time.Second), u.next)
	}
}
