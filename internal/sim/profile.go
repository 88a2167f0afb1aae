package sim

import (
	"time"
)

// assumption is something that promises rest on. A run breaks at most one.
type assumption uint8

const (
	steadyClocks     assumption = 1 << iota // no clock of a node, or that validity is counted by, steps
	registersSurvive                        // of a majority
	nothingForced                           // no operator takes a lock away

	always assumption = 0 // what rests on none of them
)

var assumptionNames = [...]string{"a clock does not step", "a majority of registers survives",
	"no operator takes a lock away"}

// profile is what one run is like.
type profile struct {
	nodes, users      int  // users: of a process, at most
	loss, tail, twice int  // of messages, in a million
	ordered           bool // messages of a connection keep their order
	starters          bool // and the clients know it: the nodes are Starters
	pace              time.Duration
	breaks            assumption
	noQueues          int   // so many of the nodes keep no queues
	unset             bool  // the clients' wall clocks: all proposals are low
	only              Fault // if it is not the first kind, nothing else is done to the world
	also              Fault // but this, as often, if it is not the first kind
	// The usual delay of a message, and the longest rest and hold of a user, who
	// usually rests for less unless it is idle.
	trip, rest, hold time.Duration
	idle             bool
	agree            bool // the nodes' clocks do
	shares           bool // some users share names
	hands            bool // some hand their locks over
	fresh            bool // the stores are new
	// Of the clients, in a million: that say so (New of node.Group), and that send with a request
	// what they take the store for.
	says, batches int
	foreign       bool // a process of another group tries to use the stores
	// Only stalls go wrong, the nodes are slow, load says how much, and users come at the same
	// moments.
	overload bool
	load     int
}

// burden makes it a world that is as overloaded as so few users can make it.
func (p *profile) burden(load int) {
	p.overload, p.load, p.only, p.also = true, load, stalled, gaveUpWaiting
	p.loss, p.tail, p.twice, p.breaks, p.pace = 0, 0, 0, 0, 400*time.Millisecond
	p.users, p.idle, p.fresh, p.foreign, p.says = 3, false, false, false, 0
	p.trip = min(p.trip, 3*time.Millisecond)
}

// calm reports whether nothing goes wrong but that callers give up: every message
// arrives, and no later than the node timeout.
func (p *profile) calm() bool {
	return (p.only == gaveUpTrying || p.only == gaveUpWaiting) && p.loss == 0 && p.tail == 0 && p.twice == 0 &&
		p.trip < 25*time.Millisecond
}

// newProfile draws one.
func (g *engine) newProfile() profile {
	pick := func(of ...int) int { return of[g.rng.IntN(len(of))] }
	p := profile{
		nodes:   pick(1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 5, 6, 7),
		users:   pick(1, 1, 2, 3),
		twice:   pick(0, 0, 0, 0, 1_000, 20_000),
		loss:    pick(0, 0, 5_000, 20_000, 100_000),
		tail:    pick(0, 2_000, 10_000, 50_000),
		ordered: g.chance(500_000),
		pace:    time.Duration(pick(150, 400, 1500, 4000)) * time.Millisecond,
		unset:   g.chance(300_000),
		trip:    time.Duration(pick(300, 500, 3_000, 20_000)) * time.Microsecond,
		rest:    time.Duration(pick(30, 500, 2_000, 20_000)) * time.Millisecond,
		idle:    g.chance(800_000),
		hold:    time.Duration(pick(20, 2_000, 10_000, 10_000)) * time.Millisecond,
	}
	p.starters = p.ordered && g.chance(500_000)
	if g.chance(250_000) {
		p.breaks = assumption(1 << g.rng.IntN(3))
	}
	p.batches = pick(0, 500_000, 1_000_000)
	if g.chance(200_000) {
		// That all servers are new is the word of an operator that must not be wrong.
		p.breaks &^= registersSurvive
		p.says, p.fresh = pick(300_000, 1_000_000), g.chance(500_000)
	} else if g.chance(50_000) {
		p.fresh = true
	}
	// The stores of a group without registers are whose that comes first.
	p.foreign = !p.fresh && p.breaks&registersSurvive == 0 && g.chance(200_000)
	if g.chance(60_000) {
		p.burden(pick(0, 1, 1))
	}
	if p.idle {
		p.rest = 20 * time.Second
	}
	switch {
	case g.chance(50_000):
		p.noQueues = p.nodes
	case g.chance(50_000):
		p.noQueues = 1
	}
	return p
}
