package sim

import (
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// inject says how faults of each of the kinds are injected: once, until some time.
// Those without are drawn for each message, by the profile's rates.
var inject = [faults]func(w *world, until time.Duration){
	reordered: func(w *world, _ time.Duration) {
		c := w.someClient() // a connection that is opened anew overtakes the old one
		for i := range c.links {
			c.links[i].last = [2]time.Duration{}
		}
	},
	oneNodeCut: func(w *world, until time.Duration) {
		w.cut(oneNodeCut, core.Set(0).With(w.someNode().id), until, toNode, toClient)
	},
	majorityCut: func(w *world, until time.Duration) {
		w.cut(majorityCut, w.majority(), until, toNode, toClient)
	},
	oneWayCut: func(w *world, until time.Duration) {
		w.cut(oneWayCut, core.Set(w.rng.IntN(int(w.all()))+1), until, w.rng.IntN(2))
	},
	ringCut: (*world).cutRing,
	clientCut: func(w *world, until time.Duration) {
		c := w.someClient()
		w.count(clientCut)
		w.note("client %[1]d is cut off", c.id, 0, 0, uint64(until))
		c.block(w.all(), until, toNode, toClient)
	},
	crashed:   func(w *world, until time.Duration) { w.crash(w.someNode(), crashed, until) },
	emptied:   func(w *world, until time.Duration) { w.crash(w.someNode(), emptied, until) },
	forgetful: func(w *world, until time.Duration) { w.crash(w.someNode(), forgetful, until) },
	wiped: func(w *world, _ time.Duration) {
		if n := w.someNode(); w.mayForget(n) && !n.down {
			w.wipe(n)
		}
	},
	restored: func(w *world, _ time.Duration) { w.restore(restored, w.someNode()) },
	copied:   func(w *world, _ time.Duration) { w.restore(copied, w.someNode()) },
	setBack:  func(w *world, _ time.Duration) { w.restore(setBack, w.someNode()) },
	stalled: func(w *world, _ time.Duration) {
		w.stall(core.Set(w.rng.IntN(int(w.all())) + 1))
	},
	paused:       (*world).pause,
	pausedForTTL: (*world).pause, // which counts it
	subscriptionBroken: func(w *world, _ time.Duration) {
		if n := w.someNode(); len(n.subs) > 0 {
			w.count(subscriptionBroken)
			n.breakSubscription(n.subs[w.rng.IntN(len(n.subs))])
		}
	},
	gaveUpTrying:  (*world).giveUp,
	gaveUpWaiting: (*world).giveUp,
	gaveUpQueued:  (*world).giveUp,
	killed: func(w *world, _ time.Duration) {
		c := w.someClient()
		w.count(killed)
		w.note("client %[1]d is killed", c.id, 0, 0, 0)
		w.replace(c)
	},
	closed: func(w *world, _ time.Duration) { w.close(w.someClient()) },
	wallStepped: func(w *world, _ time.Duration) {
		w.count(wallStepped)
		w.someClient().wall += w.between(-time.Hour, time.Hour)
	},
	nodeStepped:   func(w *world, _ time.Duration) { w.stepClock(nodeStepped) },
	clientStepped: func(w *world, _ time.Duration) { w.stepClock(clientStepped) },
	majorityLost: func(w *world, until time.Duration) {
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
	},
	forced: func(w *world, _ time.Duration) {
		if !w.rests(nothingForced) {
			w.force(w.rng.IntN(len(w.names)))
		}
	},
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
		if f := inject[kind]; f != nil {
			f(w, min(w.now+w.wide(3*w.maxTTL), w.quietAt))
		}
		w.faultsBegin()
	})
}
