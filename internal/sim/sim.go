package sim

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/internal/check"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/sim/proofsteps"
	"github.com/fenlock/fenlock/node/rule"
)

// Options change a run. The zero Options let the seed decide.
type Options struct {
	// Trace is told every event, in words. nil is silent, and much faster.
	Trace func(line string)

	// Steps has each step of the code be one of the models that are proved, which is checked as
	// "steps".
	Steps bool

	rules   *rules               // nil: the shipped code
	enough  func(Violation) bool // ends the run; nil: it goes on to its end
	profile func(*profile)       // nil: as the seed says
}

// How long a run may take to end after it is quiet, and how many events at all:
// more than a hundred times the usual.
const (
	patience  = 5 * time.Minute
	maxEvents = 5_000_000
)

// Run makes one run. The same seed gives the same run, to the last event.
func Run(seed uint64, opt Options) Result {
	w := newWorld(seed, opt)
	for len(w.agenda.heap) > 0 && w.now < w.quietAt+patience+2*w.progress.Bound && w.events < maxEvents && !w.ended {
		w.step()
	}
	if len(w.agenda.heap) > 0 && !w.ended {
		w.violate("left over", "something goes on for ever")
	}
	w.check(always, "progress", w.progress.Finish(w.now))
	for _, users := range w.users {
		for _, u := range users {
			if !u.done && !w.progress.Waits(u.id) {
				w.violate("progress", fmt.Sprintf("user %d of client %d has not finished", u.id, u.c.id))
			}
		}
	}
	w.remains.longest += w.maxTTL + w.maxTTL/50 + time.Second
	w.leftovers(func(c *client) int { return c.shell.Counts().Waiters })
	r := w.result
	steps, untied, admissions := w.steps.End()
	if r.Steps, r.Admissions = steps, admissions; untied {
		r.Untied = 1
	}
	r.Seed, r.Hash, r.Events, r.Simulated = seed, w.hash, w.events, w.now
	r.Longest, r.Bound = w.progress.Longest, w.progress.Bound
	return r
}

// Runs makes n runs from a first seed on, several at a time, and tells each of
// their results in the order of the seeds. It stops early if each returns false.
func Runs(first uint64, n, workers int, opt Options, each func(Result) bool) {
	// The queue bounds how far the fastest may be ahead of the slowest.
	queue, slots, stop := make(chan chan Result, 4*workers), make(chan struct{}, workers), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := range n {
			result := make(chan Result, 1)
			select {
			case queue <- result:
			case <-stop:
				return
			}
			slots <- struct{}{}
			wait.Go(func() {
				result <- Run(first+uint64(i), opt)
				<-slots
			})
		}
	})
	for range n {
		if !each(<-<-queue) {
			break
		}
	}
	close(stop)
	wait.Wait()
}

func newWorld(seed uint64, opt Options) *world {
	w := &world{run: run{engine: newEngine(seed), enough: opt.enough}, rules: shipped()}
	w.trace = opt.Trace
	if opt.rules != nil {
		w.rules = *opt.rules
	}
	w.profile = w.newProfile()
	w.profile.shares = opt.rules == nil && seed%4 == 3
	w.profile.hands = opt.rules == nil && seed%3 == 1 && !w.profile.calm() // what is on its way is no leftover
	if opt.profile != nil {
		w.profile.overload = false // more may go wrong than load
		opt.profile(&w.profile)
	}
	for a, name := range assumptionNames {
		if !w.rests(1 << a) {
			w.result.Broken = append(w.result.Broken, name)
		}
	}
	w.maxTTL = w.between(time.Second, 5*time.Second).Truncate(time.Millisecond)
	w.quietAt = w.between(60*time.Second, 75*time.Second)
	w.newNames(1 + w.rng.IntN(3))
	w.guarded = guarded{values: make([]int, len(w.names)), off: w.rules.guardOff}
	w.newNodes()
	if opt.Steps {
		w.steps = proofsteps.New(proofsteps.Config{Names: w.names, Stripes: w.stripes, Nodes: len(w.nodes), MaxTTL: w.maxTTL,
			New: w.profile.fresh, Shares: w.profile.shares, Survive: w.rests(registersSurvive), Violate: w.violate})
	}
	users := 0
	for range 2 + w.rng.IntN(5) {
		users += w.newClient(users)
	}
	w.progress = check.NewProgress(users, w.bound(users), w.quietAt)
	if w.profile.fresh && w.chance(500_000) {
		// Some members of a new group cannot be reached at first, by some or all.
		w.cut(oneNodeCut, core.Set(w.rng.IntN(int(w.all()))+1), w.upTo(20*time.Second), toNode, toClient)
	}
	w.faultsBegin()
	if w.profile.foreign {
		c := newProcess(&w.run, &w.rules.processRules, w.nodes, len(w.clients), w.newClock())
		c.terms, c.says = w.foreignTerms(), w.chance(500_000)
		c.tries()
	}
	w.at(w.quietAt, w.beQuiet)
	return w
}

// newNodes makes the group: with all stores admitted, or with none that was ever used.
func (w *world) newNodes() {
	w.terms = groupTerms(w.maxTTL, w.profile.nodes)
	for i := range w.profile.nodes {
		n := newServer(&w.run, &w.rules.nodeRules, i, w.newClock())
		n.cost = w.upTo(w.maxTTL / 300 * time.Duration(w.profile.load))
		n.kind = storeKind{noQueues: i < w.profile.noQueues, renames: w.chance(300_000), flushes: w.chance(500_000),
			clears: w.chance(500_000), unsure: w.chance(300_000)}
		w.nodes = append(w.nodes, n)
		if w.profile.agree {
			n.clock = w.nodes[0].clock
		}
	}
	if w.founded = !w.profile.fresh; w.founded {
		return
	}
	for _, n := range w.nodes {
		n.memory = memory{}
	}
}

// newClient makes a client, whose users have numbers from first on, and returns how many.
func (w *world) newClient(first int) (users int) {
	c := w.add(w.newClock())
	c.wall = w.between(-time.Minute, time.Minute) + 1000*time.Hour
	c.batches, c.says = w.chance(w.profile.batches), w.chance(w.profile.says)
	if w.profile.unset {
		c.wall = -1000 * time.Hour
	}
	c.ttl = w.between(max(w.maxTTL/3, 500*time.Millisecond), w.maxTTL).Truncate(time.Millisecond)
	c.nodeTimeout = max(c.ttl/20, 25*time.Millisecond)
	if w.chance(200_000) {
		c.maxHold = w.between(c.ttl, 3*c.ttl)
	}
	users = 1 + w.rng.IntN(w.profile.users)
	w.users = append(w.users, make([]*user, users))
	for i := range users {
		w.users[c.id][i] = &user{id: first + i}
	}
	w.begin(c, 0)
	for _, u := range w.users[c.id] {
		c.at(w.upTo(time.Second), u.next)
	}
	return users
}

// begin starts a life of a client, with new users in the places of those before.
func (w *world) begin(c *client, epoch int) {
	c.begin(epoch)
	for i, u := range w.users[c.id] {
		u = &user{c: c, id: u.id, guarded: &w.guarded}
		for name := range w.names {
			u.left = append(u.left, (name+u.id)%len(w.names))
		}
		w.users[c.id][i] = u
	}
}

// bound is how long a client may wait once nothing fails any more: until the leases that are left
// over end; then the backstop, because all notifications may have been lost; and a reservation for
// each client, which may have been notified in vain. For those who left the queues without the
// nodes hearing of it, see beQuiet.
func (w *world) bound(users int) time.Duration {
	backstop := core.Backstop + core.Backstop/4
	return w.maxTTL + w.maxTTL/100 + backstop + time.Duration(users)*rule.ReservationTTL
}

// beQuiet ends all faults. What was done stays done.
func (w *world) beQuiet() {
	w.quiet = true
	for _, n := range w.nodes {
		n.cost = 0
	}
	w.note("nothing fails any more, with %[1]d attempts made", w.attempts, 0, 0, 0)
	w.remains.lastIdentity, w.remains.lastWaiter = w.identities, make(map[string]uint64)
	for _, c := range w.clients {
		w.remains.lastWaiter[c.identity] = c.newest
	}
	if w.profile.calm() {
		// What began before could be cleaned up at once too.
		w.remains.oldIdentity, w.remains.lastIdentity = w.identities, 0
		w.lookTwice()
		for id := range w.remains.lastWaiter {
			w.remains.lastWaiter[id] = 0
		}
	}
	// Each waiter that is gone, but still in the queue, is notified in vain when its turn
	// comes: its client still listens.
	var gone []string
	for _, n := range w.nodes {
		for _, name := range w.names {
			q := n.store.Queues[name]
			for _, p := range q.Waiters {
				if n.local() < q.Expires && !w.waits(p.Waiter) && !slices.Contains(gone, p.Waiter) {
					gone = append(gone, p.Waiter)
				}
			}
		}
	}
	w.progress.Bound += time.Duration(len(gone)) * rule.ReservationTTL
	for _, n := range w.nodes {
		n.subs = slices.DeleteFunc(n.subs, func(s *subscription) bool { return s.epoch != s.c.epoch })
	}
}

// waits reports whether a waiter still waits.
func (w *world) waits(id string) bool {
	return slices.ContainsFunc(w.clients, func(c *client) bool {
		return slices.ContainsFunc(slices.Concat(c.waiting...), func(a *acquisition) bool { return a.waiter == id })
	})
}
