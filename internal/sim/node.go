package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/sim/proofsteps"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/rule"
)

// server is one node: the store that has its address, the faults that it can have, and who listens.
type server struct {
	w     *run
	rules *nodeRules
	id    int
	clock clock
	kind  storeKind

	memory
	identity int           // what the store is now
	lives    int           // counts losses of memory, which have a name each
	kept     int           // the identity since which it has lost nothing, 0: it cannot tell
	blank    bool          // it has had no mark since it was started
	started  time.Duration // on its own clock
	lost     time.Duration // when it lost its memory last, on its own clock
	cause    node.Cause    // of the last loss
	unmarked time.Duration // when its mark was removed, on its own clock

	cost time.Duration // what a request takes
	busy time.Duration // until then with the requests that came

	subs     []*subscription
	down     bool
	isolated time.Duration // until when an operator cannot reach it
}

// nodeRules are what a test can break of a node, of the rules of admission too.
type nodeRules struct {
	serve      func(e *rule.Entry, q rule.Queue, now time.Duration, r node.Request) (node.Answer, []string)
	notifyLost func() bool
	note       func(n *server, f admit.Facts) bool
	mark       func(n *server, f admit.Facts, own admit.Terms, empty []string) bool
	believes   func(n *server, identity int) bool
	complete   func(n *server) bool
	counts     func(n *server, identity int) bool // whether an answer does, of a request for that
}

// storeKind is in what stores differ.
type storeKind struct {
	noQueues bool // it is not a Queuer
	renames  bool // each start makes it another identity, and it proves that it has lost nothing
	flushes  bool // its identity outlives a flush, and nothing else does
	clears   bool // a note removes all leases
	unsure   bool // it never says that it is untouched
}

// memory is all that a store has stored: what a loss takes, and what a backup has.
type memory struct {
	store     rule.Store
	mark      int // the identity that was admitted, 0: none
	candidate int // made by the first client that looks, 0: none
	terms     admit.Terms
	empty     []string // as in node.Registers
	noted     note
}

// note is since when a store is out, by its clock, and as what.
type note struct {
	identity int
	since    time.Duration
}

// clone is a backup.
func (m memory) clone() memory {
	m.store.Leases, m.store.Registers, m.store.Queues = maps.Clone(m.store.Leases), maps.Clone(m.store.Registers),
		maps.Clone(m.store.Queues)
	for name, q := range m.store.Queues {
		q.Waiters = slices.Clone(q.Waiters)
		m.store.Queues[name] = q
	}
	return m
}

// newServer returns a node whose store was admitted.
func newServer(w *run, rules *nodeRules, id int, clock clock) *server {
	n := &server{w: w, rules: rules, id: id, clock: clock, identity: w.identityOfStore()}
	n.mark, n.terms = n.identity, w.terms
	return n
}

func (w *run) identityOfStore() int {
	w.stores++
	return w.stores
}

func (n *server) local() time.Duration { return n.clock.local(n.w.now) }

// votes reports whether the mark is of what the store is now.
func (n *server) votes() bool { return n.rules.believes(n, n.identity) }

// believes compares the mark of a store.
func believes(n *server, identity int) bool { return n.mark != 0 && n.mark == identity }

// hasKept reports whether the store votes, or can prove that it may.
func (n *server) hasKept() bool { return n.mark != 0 && (n.mark == n.identity || n.mark == n.kept) }

// serve carries out an operation in one step. Waiters are notified after it.
//
// The request looks at the store in that step. If the client has sent what it takes the store for,
// it compares the mark with that instead. Such an answer counts only if the store proves to be that
// afterwards. What the request did is done all the same.
func (n *server) serve(r node.Request, known int) node.Answer {
	now := n.local()
	is := n.identity
	if known != 0 && r.Op != node.Release { // an operation that gives the name looks at the store itself
		is = known
	}
	n.store.Out = !n.rules.believes(n, is)
	before := n.store.Begin(r.Name, now, nil).Entry
	o := n.store.Begin(r.Name, now, func(waiter string) bool { return n.subscription(waiter) != nil })
	var q rule.Queue
	if !n.kind.noQueues {
		q = o
	}
	a, notified := n.rules.serve(&o.Entry, q, now, r)
	o.Commit()
	for _, waiter := range notified {
		n.notify(waiter)
	}
	got := a
	if !n.rules.counts(n, is) && a.Status != node.Rejoining && r.Op != node.Release {
		n.w.count(stray)
		got = node.Answer{}
	}
	n.w.steps.Served(n.id, r, &before, &o.Entry, now, a, got)
	return got
}

// crash takes the node down. One that is emptied loses its memory; of one that is
// forgetful, each thing is kept or lost by chance, and a register may be what it was
// long ago.
func (n *server) crash(f Fault) {
	n.down = true
	n.breakSubscriptions()
	switch f {
	case crashed:
		if n.kind.renames {
			if n.mark == n.identity {
				n.kept = n.identity
			}
			n.identity = n.w.identityOfStore()
		}
	case emptied:
		n.become(memory{}, node.Restarted)
	case forgetful:
		n.become(n.lossy(), node.Replaced)
	}
}

// lossy returns the memory of a forgetful node.
func (n *server) lossy() memory {
	w, m := n.w, n.memory
	m.store.Queues = nil
	for _, name := range w.names {
		if w.chance(500_000) {
			delete(m.store.Leases, name)
		}
	}
	for _, stripe := range w.stripes {
		if token, ok := m.store.Registers[stripe]; ok && w.chance(500_000) {
			m.store.Registers[stripe] = token - min(token-1, fence.Token(w.rng.Int64N(1_000_000)))
		}
	}
	if w.chance(500_000) {
		m.mark = 0
	}
	if w.chance(500_000) && m.mark == 0 {
		m.terms = admit.Terms{}
	}
	return m
}

// become gives the store another memory than it had, and has it be something else.
func (n *server) become(m memory, why node.Cause) {
	n.memory, n.cause = m, why
	n.identity, n.kept, n.blank = n.w.identityOfStore(), 0, false
	n.lost = n.local()
	n.unmarked = n.lost
	n.lives++
	n.w.steps.Lost(n.seen())
}

func (n *server) restart() {
	n.down = false
	n.started = n.local()
	n.blank = n.mark == 0
}

// What follows is the store as a client that admits it sees it, each in one step.

// state is what a note and a mark compare.
type state struct{ identity, candidate, mark int }

func (n *server) state() state { return state{n.identity, n.candidate, n.mark} }

// facts is what the store says of itself.
func (n *server) facts() admit.Facts {
	if n.candidate == 0 {
		n.candidate = n.w.identityOfStore()
	}
	now := n.local()
	f := admit.Facts{Server: n.server(), Memory: n.memoryName(), Terms: n.terms,
		Votes: n.votes(), Marked: n.mark != 0, Kept: n.hasKept() && !n.votes(), Recorded: n.recorded(),
		Cause: n.cause, Untouched: !n.kind.unsure, Empty: n.empty, State: n.state()}
	switch {
	case f.Marked:
	case n.noted.identity == n.identity && n.noted.since <= now:
		f.Counted, f.Out = true, now-n.noted.since
	case n.blank:
		f.Counted, f.Out = true, now-n.started
	}
	f.Out = f.Out.Truncate(time.Millisecond)
	if !f.Recorded {
		f.Cause = node.Unused
	}
	return f
}

// recorded reports whether the store has anything recorded: it is not new then.
func (n *server) recorded() bool {
	return n.mark != 0 || n.terms != (admit.Terms{}) || len(n.store.Registers) > 0
}

// note removes the mark, and notes that the store is out from now on.
func (n *server) note(f admit.Facts) bool {
	if f.State != n.state() || n.votes() {
		return false
	}
	now := n.local()
	if n.mark != 0 {
		n.unmarked = now
	}
	if n.mark != 0 || n.noted.identity != n.identity || n.noted.since > now {
		n.mark, n.noted = 0, note{n.identity, now}
		if n.kind.clears {
			clear(n.store.Leases)
		}
	}
	n.w.note("node %[1]d is noted to be out", n.id, 0, 0, 0)
	return true
}

// setMark has the store vote.
func (n *server) setMark(f admit.Facts, own admit.Terms, empty []string) bool {
	if f.State != n.state() || n.votes() || n.terms.Check(own) != nil {
		return false
	}
	n.admitted(own, empty)
	return true
}

func (n *server) admitted(own admit.Terms, empty []string) {
	n.mark, n.noted, n.blank, n.empty = n.identity, note{}, false, empty
	if n.terms == (admit.Terms{}) {
		n.terms = own
	}
	n.w.note("node %[1]d is admitted", n.id, 0, 0, 0)
}

// complete reports whether the registers are all that was promised. A store that was started again,
// and proves that it has lost nothing, has them too. Other clients must not take it for one that is
// empty.
func complete(n *server) bool { return n.hasKept() }

// say is what a client hears that asks for the registers.
func (n *server) say() *node.Registers {
	return &node.Registers{Server: n.server(), Memory: n.memoryName(), Admitted: n.rules.complete(n), Empty: n.empty,
		MaxTTL: n.terms.MaxTTL, Members: n.terms.Members, Tokens: maps.Clone(n.store.Registers)}
}

func (n *server) server() string     { return fmt.Sprint("server ", n.id) }
func (n *server) memoryName() string { return fmt.Sprint("server ", n.id, " life ", n.lives) }

// seen is the store as the steps of the models see it.
func (n *server) seen() proofsteps.Node {
	return proofsteps.Node{ID: n.id, Memory: n.memoryName(), Store: &n.store, Now: n.local(), Marked: n.mark != 0,
		Out: n.local() - n.unmarked}
}

// leftOver reports whether a node cannot have the lease that was extended because of another
// client's. That client died, or was cut off, in the middle of an attempt. Its lease ends by
// itself. What is reserved for a waiter is no reason.
func (n *server) leftOver(r node.Request, a node.Answer) bool {
	l, leased := n.store.Leases[r.Name]
	return r.Op == node.Extend && a.Status == node.Lost && leased && n.local() < l.Expires && !l.Holder.Reserves()
}
