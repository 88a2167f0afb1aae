package shell

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// Config is what a Client is made with. All of it but Rules and the functions is
// required.
type Config struct {
	Env   Env
	Peers []Peer // the quorum group, at most core.MaxNodes

	Terms                     // of an acquisition that has no others
	NodeTimeout time.Duration // bounds each request

	// Ails returns why a peer that has not answered cannot, nil if that is not known. It returns at
	// once. It may be nil.
	Ails func(peer int) error
	// CannotNotify is told when a peer refused to make waiters reachable.
	CannotNotify func(peer int, err error)
	// HealthChanged is told when a node stops working, and when it works again: of each node in
	// order, and without any mutex held. Close waits until it has returned. It may be nil.
	HealthChanged func(HealthChange)
	// Answered is told of each request that was answered, or whose time is up, and how long it took
	// by Stopwatch. The goroutine that has the answer tells it. It may be nil.
	Answered func(peer int, op node.Op, a node.Answer, err error, took time.Duration)
	// Stopwatch is a clock for Answered, and for nothing that matters: Env's may be a
	// system call each time.
	Stopwatch func() time.Duration
	Rules     Rules // nil: Shipped
	// Bound says that the only node binds leases to this process (node.Binder). TTL is only the
	// pace at which it is asked whether a lease is there.
	Bound bool
}

// Terms are what an acquisition may have otherwise than the next.
type Terms struct {
	TTL     time.Duration
	MaxHold time.Duration // 0: unbounded
	Label   string        // follows the holder's identity
	// AtLeast is for how long the leases stay, whatever becomes of the holder, once Lock.Keep was
	// called. The holder believes in the TTL all the same.
	AtLeast time.Duration
	Shared  bool // with others who want the same
	Slots   int  // and who have one of as many slots (node.Holder.Slots)
	// Arrived is when the caller came, by Env.Now, if it has waited elsewhere since: it stands in the
	// queues by that. 0: it comes now.
	Arrived time.Duration
}

// Exported is what a process needs to go on with a lock that another one has exported. A process
// that has it can extend and release the lock.
type Exported struct {
	Holder      node.Holder
	Token, Mark fence.Token
	// Terms are those of the lock. MaxHold and AtLeast are what was left of them, 0 for none.
	Terms
}

// group is what all locks of a Client share.
type group struct {
	Config
	ordered   core.Set // the peers that keep requests in order
	inflight  inflight
	deadlines deadlines // of requests
	unheard   deadlines // of answers that are waited for after that
	ticks     ticks
	health    health
	strays    strays
	pacing    pacing

	// seen is the largest register that any node ever showed, for proposals.
	seen atomic.Uint64

	mu    sync.Mutex // guards time
	time  NodeTime
	clock core.NodeTime // behind time
}

func newGroup(c Config) *group {
	if c.Rules == nil {
		c.Rules = Shipped{}
	}
	g := &group{Config: c}
	g.time = c.Rules.NodeTime(&g.clock)
	g.health = health{env: c.Env, inflight: &g.inflight, tell: c.HealthChanged, peers: make([]peerHealth, len(c.Peers))}
	g.deadlines.env, g.unheard.env, g.ticks.env = c.Env, c.Env, c.Env
	g.pacing = pacing{env: c.Env, nodes: len(c.Peers), pace: core.Pace{NodeTimeout: c.NodeTimeout, TTL: c.TTL}}
	g.strays = strays{env: c.Env, ttl: c.TTL, bound: c.Bound, peers: make([]strayPeer, len(c.Peers))}
	for i, p := range c.Peers {
		if p.InOrder() {
			g.ordered = g.ordered.With(i)
		}
	}
	return g
}

// observe remembers the largest register seen.
func (g *group) observe(token fence.Token) {
	if token > node.MaxRegister {
		return
	}
	for {
		seen := g.seen.Load()
		if uint64(token) <= seen || g.seen.CompareAndSwap(seen, uint64(token)) {
			return
		}
	}
}

// observeClock learns a node's time from the answer to a request.
func (g *group) observeClock(node int, sent, received, clock time.Duration) {
	if !g.Peers[node].Queues() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.time.Observe(node, sent, received, clock)
}

// nodeTime returns the nodes' time at a time of the client's clock, false if no node
// has told its own.
func (g *group) nodeTime(at time.Duration) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.time.At(at)
}
