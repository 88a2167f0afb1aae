package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
	"github.com/fenlock/fenlock/node/rule"
)

// server is one node: a store, the faults that it can have, and who listens.
type server struct {
	w     *world
	id    int
	clock clock

	noQueues bool // it is not a Queuer

	store rule.Store // Out: it lost its memory, and is not admitted
	subs  []*subscription

	down      bool
	restarted time.Duration // on its own clock
	life      int           // counts losses of memory
	empty     []string      // as in node.Registers
	isolated  time.Duration // until when it cannot reach other nodes
}

func (n *server) local() time.Duration { return n.clock.local(n.w.now) }

// serve carries out an operation in one step. Whoever is notified is told after it.
func (n *server) serve(r node.Request) node.Answer {
	now := n.local()
	o := n.store.Begin(r.Name, now, func(waiter string) bool { return n.subscription(waiter) != nil })
	var q rule.Queue
	if !n.noQueues {
		q = o
	}
	if n.w.profile.shares {
		a, notified := n.w.rules.serveShared(&o.Entry, q, now, r)
		o.Commit()
		for _, waiter := range notified {
			n.w.notify(n, waiter)
		}
		return a
	}
	a, notified := n.w.rules.serve(&o.Entry, q, now, r)
	o.Commit()
	if notified != "" {
		n.w.notify(n, notified)
	}
	return a
}

// crash takes the node down. One that is emptied loses its memory; of one that is
// forgetful, each thing is kept or lost by chance, and a register may be what it was
// long ago.
func (n *server) crash(f Fault) {
	n.down = true
	n.w.breakSubscriptions(n)
	if f == crashed {
		return
	}
	before := n.store
	n.store, n.empty = rule.Store{Out: true}, nil
	n.life++
	if f == emptied {
		return
	}
	n.store.Leases, n.store.Registers = before.Leases, before.Registers
	for _, name := range n.w.names {
		if n.w.chance(500_000) {
			delete(n.store.Leases, name)
		}
	}
	for _, stripe := range n.w.stripes {
		if token, ok := n.store.Registers[stripe]; ok && n.w.chance(500_000) {
			n.store.Registers[stripe] = token - min(token-1, fence.Token(n.w.rng.Int64N(1_000_000)))
		}
	}
}

func (n *server) restart() {
	n.down = false
	if !n.store.Out {
		return
	}
	n.restarted = n.local()
	life := n.life
	n.w.at(n.clock.truth(n.restarted+n.w.rules.quarantine(n.w.maxTTL)), func() { n.rejoin(life) })
}

// rejoin asks the others for their registers, once the quarantine is over.
func (n *server) rejoin(life int) {
	if life != n.life || !n.store.Out || n.down {
		return // if it is down, restart begins the quarantine anew
	}
	if n.local() < n.restarted+n.w.rules.quarantine(n.w.maxTTL) {
		// Its clock was stepped back, or it has been started again.
		n.w.after(200*time.Millisecond, func() { n.rejoin(life) })
		return
	}
	answers := make([]*node.Registers, 0, len(n.w.nodes))
	for _, other := range n.w.nodes {
		if other == n {
			continue
		}
		i := len(answers)
		answers = append(answers, nil)
		if n.w.now < max(n.isolated, other.isolated) || n.w.lost() {
			continue
		}
		n.w.after(n.w.delay(), func() {
			if !other.down {
				r := other.say()
				n.w.after(n.w.delay(), func() { answers[i] = r })
			}
		})
	}
	n.w.after(100*time.Millisecond, func() {
		if life != n.life || n.down || !n.store.Out {
			return
		}
		self := rebuild.Self{Server: n.identity(), Memory: n.memory(), Untouched: true}
		merged, err := n.w.rules.merge(len(n.w.nodes), self, slices.Clone(answers))
		if err != nil {
			n.w.after(200*time.Millisecond, func() { n.rejoin(life) })
			return
		}
		if merged.Weak && n.w.rests(registersSurvive) {
			n.w.violate("tokens", fmt.Sprintf("node %d was admitted without the registers of a majority, which had not lost its memory", n.id))
		}
		n.store.Raise(merged.Tokens)
		n.store.Out, n.empty = false, merged.Empty
		n.w.note("node %[1]d is admitted again", n.id, 0, 0, 0)
	})
}

func (n *server) say() *node.Registers {
	return &node.Registers{Server: n.identity(), Memory: n.memory(), Admitted: !n.store.Out, Empty: n.empty,
		MaxTTL: n.w.maxTTL, Tokens: maps.Clone(n.store.Registers)}
}

func (n *server) identity() string { return fmt.Sprint("server ", n.id) }
func (n *server) memory() string   { return fmt.Sprint("server ", n.id, " life ", n.life) }
