//go:build linux

package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// kind is a kind of fault.
type kind struct {
	name string

	// breaks is the declared assumption of the lock that the fault breaks, "" for
	// none: see the constants below.
	breaks string

	// forgets: it can cost a server its memory, or keep it from voting for as long
	// as if it had. No more than a minority may be in this state at a time, counted
	// until the server is admitted again.
	forgets bool

	// shortest and longest are for how many TTLs the fault lasts, from the return of
	// inject to the call of heal. Both 0: it is over when inject returns, and heal
	// is called at once.
	shortest, longest float64

	// nodeless: it strikes several servers, or none, whichever the runner chose.
	nodeless bool

	// within says, per rival library ("redsync", "redislock"), whether the fault is
	// within the assumptions that this library states. See also allows.
	within map[string]bool

	// inject begins the fault. It notes nothing but the steps that the runner cannot
	// know of; the runner notes that the fault begins, before, and that it is healed,
	// after. heal leaves the server in its normal state; it is called once, and waits
	// where another fault keeps the server from answering, so heals of one server must
	// not wait for each other. With an error there is nothing to heal; it is errNotNow
	// if another fault was in the way.
	inject func(s *scene) (heal func() error, err error)
}

// The assumptions that faults break, as README.md declares them.
const (
	sameRate   = "clocks run at about the same rate"
	noEviction = "maxmemory-policy is noeviction"
)

// scene is what a fault may act on: who draws the numbers, and what there is.
type scene struct {
	rng     *rand.Rand
	cluster *cluster
	node    int // chosen by the runner, from 0
	clients clients
	ttl     time.Duration

	// note records a step that strikes: faults that strike several times, or step a
	// clock when they heal, call it for each step. node is from 0, as above.
	note func(fault string, node int, breaks string)
}

// clients are the client processes that are alive, numbered from 0 for as long as
// the scene is acted on.
type clients interface {
	count() int
	pause(i int) (resume func(), err error) // SIGSTOP
	kill(i int) error                       // SIGKILL; somebody else takes its place
}

func (s *scene) member() *member { return s.cluster.members[s.node] }

// between draws a duration, as many TTLs long as the numbers say.
func (s *scene) between(shortest, longest float64) time.Duration {
	return time.Duration((shortest + s.rng.Float64()*(longest-shortest)) * float64(s.ttl))
}

// magnitude draws a duration from a range of orders of magnitude.
func (s *scene) magnitude(least, most time.Duration) time.Duration {
	low, high := math.Log(float64(least)), math.Log(float64(most))
	return time.Duration(math.Exp(low + s.rng.Float64()*(high-low)))
}

// kinds are all kinds of fault.
var kinds = slices.Concat(processKinds, clockKinds, networkKinds, memoryKinds, refusalKinds)

// What the rivals state. redsync follows the description of Redlock: independent
// primaries, clocks at the same rate, memory that survives a crash (fsync always, or
// a restart delayed by hand), and a holder that is done within its validity; the
// network and the processes may be as slow as they like. redislock states nothing:
// it gets what holds for any one server that keeps its memory and its clock.
var (
	anybody = map[string]bool{"redsync": true, "redislock": true}
	nobody  = map[string]bool{"redsync": false, "redislock": false}
)

// allows reports whether a fault is within what a rival states, on servers with
// this persistence: a crash is, if it costs no memory.
func (k kind) allows(library string, p persistence) bool {
	return k.within[library] && (k.name != "kill" || p == always)
}
