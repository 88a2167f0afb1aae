package sim

import (
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// Fault is a kind of thing that goes wrong.
type Fault int

// What can go wrong. All but the last four are what fenlock promises to bear, and
// doubled requests; see assumption.
const (
	requestLost Fault = iota
	replyLost
	slow
	reordered
	duplicated
	oneNodeCut
	majorityCut
	oneWayCut
	ringCut
	clientCut
	crashed
	emptied
	forgetful
	wiped
	restored
	copied
	setBack
	stray
	stalled
	paused
	pausedForTTL
	subscriptionBroken
	notificationLost
	gaveUpTrying
	gaveUpWaiting
	gaveUpQueued
	killed
	closed
	wallStepped
	staleWrite
	nodeStepped
	clientStepped
	majorityLost
	forced
	faults
)

// kinds says of each fault what it is, and how it is injected: once, until some time.
// Those without are drawn for each message, by the profile's rates.
var kinds = [faults]struct {
	name   string
	inject func(w *world, until time.Duration)
}{
	requestLost: {name: "request lost"},
	replyLost:   {name: "reply lost"},   // of a request that was executed
	slow:        {name: "slow message"}, // that takes longer than most timeouts
	reordered: {"reordered request", func(w *world, _ time.Duration) { // overtaken by a later one
		c := w.someClient() // a connection that is opened anew overtakes the old one
		for i := range c.links {
			c.links[i].last = [2]time.Duration{}
		}
	}},
	duplicated: {name: "doubled request"}, // executed twice
	oneNodeCut: {"one node cut off", func(w *world, until time.Duration) {
		w.cut(oneNodeCut, core.Set(0).With(w.someNode().id), until, toNode, toClient)
	}},
	majorityCut: {"majority cut off", func(w *world, until time.Duration) {
		w.cut(majorityCut, w.majority(), until, toNode, toClient)
	}},
	oneWayCut: {"one-way cut", func(w *world, until time.Duration) { // requests, or answers only
		w.cut(oneWayCut, core.Set(w.rng.IntN(int(w.all()))+1), until, w.rng.IntN(2))
	}},
	ringCut: {"ring of cuts", (*world).cutRing},
	clientCut: {"client cut off", func(w *world, until time.Duration) {
		c := w.someClient()
		w.count(clientCut)
		w.note("client %[1]d is cut off", c.id, 0, 0, uint64(until))
		w.block(c, w.all(), until, toNode, toClient)
	}},
	crashed:   {"node crashed", func(w *world, until time.Duration) { w.crash(w.someNode(), crashed, until) }},
	emptied:   {"node lost its memory", func(w *world, until time.Duration) { w.crash(w.someNode(), emptied, until) }},
	forgetful: {"node lost some memory", func(w *world, until time.Duration) { w.crash(w.someNode(), forgetful, until) }},
	wiped: {"store wiped", func(w *world, _ time.Duration) {
		if n := w.someNode(); w.mayForget(n) && !n.down {
			w.wipe(n)
		}
	}},
	restored: {"older store in its place", func(w *world, _ time.Duration) { w.restore(restored, w.someNode()) }},
	copied:   {"copy in its place", func(w *world, _ time.Duration) { w.restore(copied, w.someNode()) }},
	setBack:  {"store set back", func(w *world, _ time.Duration) { w.restore(setBack, w.someNode()) }},
	stray:    {name: "request for an earlier store"}, // that was carried out, and does not count
	stalled: {"servers stalled", func(w *world, _ time.Duration) { // and answer late all that came meanwhile
		w.stall(core.Set(w.rng.IntN(int(w.all())) + 1))
	}},
	paused: {"client paused", (*world).pause},
	// For a TTL, or longer: counted by pause.
	pausedForTTL: {"client paused for a TTL", (*world).pause},
	subscriptionBroken: {"subscription broken", func(w *world, _ time.Duration) {
		if n := w.someNode(); len(n.subs) > 0 {
			w.count(subscriptionBroken)
			w.breakSubscription(n, n.subs[w.rng.IntN(len(n.subs))])
		}
	}},
	notificationLost: {name: "notification lost"},
	gaveUpTrying:     {"gave up trying", (*world).giveUp},       // with an attempt under way
	gaveUpWaiting:    {"gave up waiting", (*world).giveUp},      // between attempts
	gaveUpQueued:     {"gave up in the queue", (*world).giveUp}, // behind others of its process
	killed: {"client killed", func(w *world, _ time.Duration) {
		c := w.someClient()
		w.count(killed)
		w.note("client %[1]d is killed", c.id, 0, 0, 0)
		w.replace(c)
	}},
	closed: {"client closed", func(w *world, _ time.Duration) { w.close(w.someClient()) }},
	wallStepped: {"wall clock stepped", func(w *world, _ time.Duration) {
		w.count(wallStepped)
		w.someClient().wall += w.between(-time.Hour, time.Hour)
	}},
	staleWrite:    {name: "stale write"}, // that the guard refused
	nodeStepped:   {"node's clock stepped", func(w *world, _ time.Duration) { w.stepClock(nodeStepped) }},
	clientStepped: {"client's clock stepped", func(w *world, _ time.Duration) { w.stepClock(clientStepped) }},
	majorityLost: {"majority lost its memory", func(w *world, until time.Duration) {
		if w.rests(registersSurvive) {
			return
		}
		w.count(majorityLost)
		lost := w.majority()
		for i, n := range w.nodes {
			if lost.Has(i) {
				w.crash(n, emptied, until)
			}
		}
	}},
	forced: {"lock released by force", func(w *world, _ time.Duration) {
		if !w.rests(nothingForced) {
			w.force(w.rng.IntN(len(w.names)))
		}
	}},
}

func (f Fault) String() string { return kinds[f].name }

// Counts are how often a kind of fault was injected, and how often of these while a client held a
// lock.
type Counts struct{ All, Held int }

func (w *world) count(f Fault) {
	w.result.Faults[f].All++
	if w.validity.Held(w.now) {
		w.result.Faults[f].Held++
	}
}

// faultsBegin has faults injected, again and again until the quiet begins.
func (w *world) faultsBegin() {
	w.after(w.upTo(2*w.profile.pace), func() {
		if w.quiet {
			return
		}
		kind := Fault(w.rng.IntN(int(faults)))
		if w.profile.only != requestLost {
			kind = w.profile.only
			if w.profile.also != requestLost && w.chance(500_000) {
				kind = w.profile.also
			}
		}
		if inject := kinds[kind].inject; inject != nil {
			inject(w, min(w.now+w.wide(3*w.maxTTL), w.quietAt))
		}
		w.faultsBegin()
	})
}

func (w *world) someClient() *client { return w.clients[w.rng.IntN(len(w.clients))] }
func (w *world) someNode() *server   { return w.nodes[w.rng.IntN(len(w.nodes))] }

func (w *world) all() core.Set { return core.Set(1)<<len(w.nodes) - 1 }

func (w *world) majority() (nodes core.Set) {
	for _, i := range w.rng.Perm(len(w.nodes))[:core.Quorum(len(w.nodes))] {
		nodes = nodes.With(i)
	}
	return nodes
}
