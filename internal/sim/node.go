package sim

import (
	"fmt"
	"maps"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
	"github.com/fenlock/fenlock/node/rule"
)

// server is one node: what an engine keeps around the rules.
type server struct {
	w     *world
	id    int
	clock clock

	noQueues bool // it is not a Queuer

	leases    []lease // by name
	registers map[int]fence.Token
	queues    []queue // by name
	subs      []*subscription

	down      bool
	out       bool          // lost its memory, and is not admitted
	restarted time.Duration // on its own clock
	life      int           // counts losses of memory
	empty     []string      // as in node.Registers
	isolated  time.Duration // until when it cannot reach other nodes
}

type lease struct {
	holder  node.Holder
	expires time.Duration
}

type queue struct {
	waiters rule.Line
	expires time.Duration
}

// request is one request of a client, answer what the node says.
type request struct {
	op     core.Op
	name   int
	holder node.Holder
	ttl    time.Duration
	token  fence.Token
	place  node.Place
	seq    uint64 // in the order in which a client sent them to this node
}

type answer struct {
	status    core.Status // Unknown: an error
	register  fence.Token
	remaining time.Duration
	ahead     int
	clock     time.Duration
}

func newServer(w *world, id int) *server {
	return &server{w: w, id: id, leases: make([]lease, len(w.names)), queues: make([]queue, len(w.names)),
		registers: make(map[int]fence.Token)}
}

func (n *server) local() time.Duration { return n.clock.local(n.w.now) }

// serve executes a request in one step. Whoever is called is told after it.
func (n *server) serve(r request) answer {
	now, rules := n.local(), &n.w.rules
	stripe := n.w.stripes[r.name]
	e := rule.Entry{Holder: n.leases[r.name].holder, Expires: n.leases[r.name].expires, Register: n.registers[stripe], Out: n.out}
	if n.noQueues {
		r.place = node.Place{}
	}
	var line rule.Line
	q := &n.queues[r.name]
	if now < q.expires {
		line = q.waiters
	}
	reachable := func(waiter string) bool { return n.subscription(waiter) != nil }
	var reply core.Reply
	var called string
	asked := false
	switch r.op {
	case core.Acquire:
		asked = r.place.Waiter != ""
		reply, called = rule.AcquireInLine(&e, &line, now, r.place, reachable, func(e *rule.Entry) core.Reply {
			return rules.acquire(e, now, r.holder, r.ttl, r.token)
		})
	case core.Confirm:
		reply = rules.confirm(&e, now, r.holder, r.token)
	case core.Extend:
		reply = rules.extend(&e, now, r.holder, r.ttl, r.token)
	case core.Release:
		asked = r.place.Waiter != "" && r.place.Stamp != 0
		reply, called = rules.release(&e, &line, now, r.holder, r.place, reachable)
	}
	a := answer{status: reply.Status, register: reply.Register}
	if a.status == core.Held {
		a.remaining, a.ahead, a.clock = e.Expires-now, line.Ahead(r.place.Waiter), now
	}
	if e.Register > 0 {
		n.registers[stripe] = e.Register
	}
	if called != "" {
		rules.reserve(&e, now)
	}
	n.leases[r.name] = lease{}
	if e.Leased(now) {
		n.leases[r.name] = lease{e.Holder, e.Expires}
	}
	q.waiters = line
	if asked {
		q.expires = now + rules.queueExpiry()
	}
	if called != "" {
		n.w.notify(n, called)
	}
	return a
}

// kept is how much of its memory a node that crashes has when it is back.
type kept uint8

const (
	keptAll kept = iota
	keptSome
	keptNone
)

// crash takes the node down. Of some of its memory, each thing is kept or lost
// by chance, and a register may be what it was long ago.
func (n *server) crash(memory kept) {
	n.down = true
	n.w.breakSubscriptions(n)
	if memory == keptAll {
		return
	}
	n.out, n.empty = true, nil
	n.life++
	clear(n.queues)
	if memory == keptNone {
		clear(n.leases)
		clear(n.registers)
		return
	}
	for name := range n.leases {
		if n.w.chance(500_000) {
			n.leases[name] = lease{}
		}
	}
	for _, stripe := range n.w.stripes {
		if token, ok := n.registers[stripe]; ok && n.w.chance(500_000) {
			n.registers[stripe] = token - min(token-1, fence.Token(n.w.rng.Int64N(1_000_000)))
		}
	}
}

// forced is what an operator does to a lease that is in the way.
func (n *server) forced(name int, floor fence.Token) {
	now, stripe, q := n.local(), n.w.stripes[name], &n.queues[name]
	if n.out {
		return
	}
	e := rule.Entry{Holder: n.leases[name].holder, Expires: n.leases[name].expires, Register: n.registers[stripe]}
	line := q.waiters
	if now >= q.expires {
		line = nil
	}
	_, called := rule.ForceReleaseInLine(&e, &line, now, func(waiter string) bool { return n.subscription(waiter) != nil },
		func(e *rule.Entry) core.Reply { return rule.ForceRelease(e, now, floor) })
	n.registers[stripe], n.leases[name], q.waiters = e.Register, lease{}, line
	if e.Leased(now) {
		n.leases[name] = lease{e.Holder, e.Expires}
	}
	if called != "" {
		n.w.notify(n, called)
	}
}

func (n *server) restart() {
	n.down = false
	if !n.out {
		return
	}
	n.restarted = n.local()
	life := n.life
	n.w.at(n.clock.truth(n.restarted+n.w.rules.quarantine(n.w.maxTTL)), func() { n.rejoin(life) })
}

// rejoin asks the others for their registers, once the quarantine is over.
func (n *server) rejoin(life int) {
	if life != n.life || !n.out {
		return
	}
	if n.down {
		return // restart begins the quarantine anew
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
		if life != n.life || n.down || !n.out {
			return
		}
		self := rebuild.Self{Server: n.identity(), Memory: n.memory(), Untouched: true}
		merged, err := n.w.rules.merge(len(n.w.nodes), self, append([]*node.Registers(nil), answers...))
		if err != nil {
			n.w.after(200*time.Millisecond, func() { n.rejoin(life) })
			return
		}
		if merged.Weak && n.w.rests(registersSurvive) {
			n.w.violate("tokens", fmt.Sprintf("node %d was admitted without the registers of a majority, which had not lost its memory", n.id))
		}
		for stripe, token := range merged.Tokens {
			n.registers[stripe] = max(n.registers[stripe], token)
		}
		n.out, n.empty = false, merged.Empty
		n.w.note("node %[1]d is admitted again", n.id, 0, 0, 0)
	})
}

func (n *server) say() *node.Registers {
	return &node.Registers{Server: n.identity(), Memory: n.memory(), Admitted: !n.out, Empty: n.empty,
		MaxTTL: n.w.maxTTL, Tokens: maps.Clone(n.registers)}
}

func (n *server) identity() string { return fmt.Sprint("server ", n.id) }
func (n *server) memory() string   { return fmt.Sprint("server ", n.id, " life ", n.life) }
