package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/check"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
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

// Result is what came of a run.
type Result struct {
	Seed      uint64
	Hash      uint64 // of all events: equal for equal runs
	Events    int
	Simulated time.Duration
	Acquired  int // locks
	Extended  int // extensions that were carried
	Late      int // of them by answers that came when the next one had begun
	Given     int // locks that nodes gave to waiters
	Steps     int // of the models
	Untied    int // 1: from some moment on the steps were not looked at
	// Of stores, by the action of admission.model that each is; "over" if from some moment on they
	// were not looked at.
	Admissions map[string]int
	// Shared are the locks of those who shared a name, and Downgraded those whose holders let
	// others do so.
	Shared, Downgraded int
	Exported, Adopted  int // locks that went from one process to another
	Faults             [faults]Counts
	// Longest is how long a client waited once nothing failed any more, and Bound what is allowed.
	Longest, Bound time.Duration
	Violations     []Violation
	// Broken are the assumptions that the run broke on purpose. What rests on them
	// is not checked.
	Broken []string
}

// Violation is a promise that was not kept.
type Violation struct {
	At    time.Duration
	Check string
	Text  string
}

func (v Violation) String() string {
	return fmt.Sprintf("%.6fs: %s: %s", v.At.Seconds(), v.Check, v.Text)
}

// world is everything in one run.
type world struct {
	engine
	result  Result // what is known of it before the end
	rules   rules
	profile profile
	maxTTL  time.Duration
	terms   admit.Terms
	stores  int           // identities of stores that were given
	founded bool          // a majority of the nodes has been admitted
	quietAt time.Duration // when the last fault is over
	quiet   bool

	stallAgain time.Duration // no stall before

	names      []string
	stripes    []int
	resources  []int // what the names guard: numbers that users increment
	guard      fence.Guard
	nodes      []*server
	clients    []*client
	attempts   int
	identities int                                                 // that were given to attempts and processes
	served     func(client, at int, r node.Request, a node.Answer) // for scripts
	users      int

	steps    *proofSteps
	validity check.Validity
	tokens   check.Tokens
	updates  check.Updates
	progress check.Progress
	remains  remains

	enough func(Violation) bool
	ended  bool
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
	for _, c := range w.clients {
		for _, u := range c.users {
			if !u.done && !w.progress.Waits(u.id) {
				w.violate("progress", fmt.Sprintf("user %d of client %d has not finished", u.id, c.id))
			}
		}
	}
	w.remains.longest += w.maxTTL + w.maxTTL/50 + time.Second
	w.leftovers(func(c *client) int { return c.shell.Counts().Waiters })
	w.steps.end(&w.result)
	r := w.result
	r.Seed, r.Hash, r.Events, r.Simulated = seed, w.hash, w.events, w.now
	r.Longest, r.Bound = w.progress.Longest, w.progress.Bound
	return r
}

func newWorld(seed uint64, opt Options) *world {
	w := &world{engine: newEngine(seed), rules: shipped(), enough: opt.enough}
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
	w.terms = groupTerms(w.maxTTL, w.profile.nodes)
	for i := range w.profile.nodes {
		n := w.newServer(w.newClock())
		n.cost = w.upTo(w.maxTTL / 300 * time.Duration(w.profile.load))
		n.kind = storeKind{noQueues: i < w.profile.noQueues, renames: w.chance(300_000), flushes: w.chance(500_000),
			clears: w.chance(500_000), unsure: w.chance(300_000)}
		w.nodes = append(w.nodes, n)
		if w.profile.agree {
			n.clock = w.nodes[0].clock
		}
	}
	w.found()
	if opt.Steps {
		w.steps = w.newSteps()
	}
	for i := range 2 + w.rng.IntN(5) {
		c := &client{w: w, id: i, clock: w.newClock(), wall: w.between(-time.Minute, time.Minute) + 1000*time.Hour,
			terms: w.terms}
		c.batches, c.says = w.chance(w.profile.batches), w.chance(w.profile.says)
		if w.profile.unset {
			c.wall = -1000 * time.Hour
		}
		c.ttl = w.between(max(w.maxTTL/3, 500*time.Millisecond), w.maxTTL).Truncate(time.Millisecond)
		c.nodeTimeout = max(c.ttl/20, 25*time.Millisecond)
		if w.chance(200_000) {
			c.maxHold = w.between(c.ttl, 3*c.ttl)
		}
		c.links = make([]link, len(w.nodes))
		w.clients = append(w.clients, c)
		for range 1 + w.rng.IntN(w.profile.users) {
			c.users = append(c.users, &user{id: w.users})
			w.users++
		}
		c.begin(0)
		for _, u := range c.users {
			w.atOf(c, w.upTo(time.Second), u.next)
		}
	}
	w.validity = check.NewValidity(len(w.names))
	w.tokens = check.NewTokens(len(w.names))
	w.updates = check.NewUpdates(len(w.names))
	w.progress = check.NewProgress(w.users, w.bound(), w.quietAt)
	if w.profile.fresh && w.chance(500_000) {
		// Some members of a new group cannot be reached at first, by some or all.
		w.cut(oneNodeCut, core.Set(w.rng.IntN(int(w.all()))+1), w.upTo(20*time.Second), toNode, toClient)
	}
	w.faultsBegin()
	if w.profile.foreign {
		w.foreignBegins()
	}
	w.at(w.quietAt, w.beQuiet)
	return w
}

// groupTerms are the terms of a group of so many nodes.
func groupTerms(maxTTL time.Duration, nodes int) admit.Terms {
	var members []string
	for i := range nodes {
		members = append(members, fmt.Sprint("node-", i))
	}
	return admit.Terms{MaxTTL: maxTTL, Members: strings.Join(members, " ")}
}

// found begins the group: with all stores admitted, or with none that was ever used.
func (w *world) found() {
	if w.founded = !w.profile.fresh; w.founded {
		return
	}
	for _, n := range w.nodes {
		n.memory, n.used = memory{}, false
	}
}

// newClock makes a clock within half a percent of true time. A whole percent between any two is
// what the drift of a lease allows for.
func (w *world) newClock() clock {
	return clock{ppm: int64(w.rng.IntN(10_001) - 5_000), offset: w.between(0, 100*time.Hour)}
}

// newNames chooses names. The first two of each three have one register.
func (w *world) newNames(n int) {
	w.names = slices.Clone(sharing[:n])
	for _, name := range w.names {
		w.stripes = append(w.stripes, node.Stripe(name))
	}
	w.resources = make([]int, n)
}

// sharing are names of which the first two share a stripe.
var sharing = func() []string {
	first := make(map[int]string)
	for i := 0; ; i++ {
		name := fmt.Sprint("name ", i)
		if other, ok := first[node.Stripe(name)]; ok {
			return []string{other, name, "another name"}
		}
		first[node.Stripe(name)] = name
	}
}()

// bound is how long a client may wait once nothing fails any more: until the leases that are left
// over end; then the backstop, because all notifications may have been lost; and a reservation for
// each client, which may have been notified in vain. For those who left the queues without the
// nodes hearing of it, see beQuiet.
func (w *world) bound() time.Duration {
	backstop := core.Backstop + core.Backstop/4
	return w.maxTTL + w.maxTTL/100 + backstop + time.Duration(w.users)*rule.ReservationTTL
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

func (w *world) violate(check, text string) {
	v := Violation{w.now, check, text}
	w.result.Violations = append(w.result.Violations, v)
	w.ended = w.ended || w.enough != nil && w.enough(v)
	if w.trace != nil {
		w.trace(fmt.Sprintf("%12.6fs  VIOLATION of %s: %s", w.now.Seconds(), check, text))
	}
}

// check notes that a promise is not kept, if the run keeps what the promise rests on.
func (w *world) check(restsOn assumption, promise, violation string) {
	if violation != "" && w.rests(restsOn) {
		w.violate(promise, violation)
	}
}

// What follows is told by the locks.

func (w *world) acquired(l *lock) {
	w.result.Acquired++
	token, until := l.token(), l.c.clock.truth(l.until)
	w.note("attempt %[1]d holds name %[2]d with token %[3]d until %[4]d", l.id, l.name, uint64(token), uint64(until))
	l.c.held = append(l.c.held, l)
	l.c.healing.Begins(l.id, l.began)
	begins, acquired := w.validity.Begins, w.tokens.Acquired
	if l.a.from != nil {
		w.result.Adopted++
		acquired = func(name, id int, token fence.Token, began, _ time.Duration) string {
			return w.tokens.Adopted(name, id, l.a.from.id, token, began)
		}
		if l.a.shared {
			begins = w.validity.BeginsShared
		}
	} else if l.a.shared {
		begins, acquired = w.validity.BeginsShared, w.tokens.AcquiredShared
		w.result.Shared++
	}
	w.check(steadyClocks|nothingForced, "validity", begins(l.name, l.id, token, w.now, until))
	w.check(registersSurvive, "tokens", acquired(l.name, l.id, token, l.asked, w.now))
	w.check(always, "tenure", l.tooLong())
	w.check(always, "order", l.overtook())
}

func (w *world) endedBy(l *lock) {
	w.note("attempt %[1]d does not hold name %[2]d any more, reason %[3]d", l.id, l.name, uint64(l.attempt.Reason()), 0)
	w.check(always, "tenure", l.endedWrongly())
	w.check(steadyClocks|nothingForced, "healing", l.lostWrongly())
	w.validity.Ends(l.name, l.id)
	l.c.held = slices.DeleteFunc(l.c.held, func(other *lock) bool { return other == l })
}
