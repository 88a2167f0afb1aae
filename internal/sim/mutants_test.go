package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// mutant is the algorithm with one thing wrong, and the checkers that are to
// notice within some seeds.
type mutant struct {
	name   string
	seen   string // the libraries that had this mistake
	checks []string
	seeds  int // about four times as many as are needed
	broken func(r *rules)
	// A mistake that shows under rare conditions only is looked for where they
	// are not rare.
	where func(p *profile)
}

// is makes lists of checks easier to read.
func is(checks ...string) []string { return checks }

// Mistakes that other libraries had and that cannot be made here are tested where they can. A TTL
// that is rounded to nothing is in nodetest (BadTTLChangesNothing). Names that collide with other
// keys are in node/valkeynode (TestNoLockHasTheKeyOfAQueue). Passwords in errors are in
// node/valkeynode and cmd/fenlock (TestPasswordIsNeverInAnError, FuzzNodes). Goroutines,
// descriptors and subscriptions that are left are in package fenlock (TestTenThousandLocks),
// node/filenode (TestNotificationsLeakNoDescriptors) and node/memnode
// (TestQueuesAndListenersAreFreed). Answers to an older confirm or extension matter too seldom to
// be looked for here, see TestConfirm and TestExtend of internal/core. A forced release that moves
// the register by too little and what makes a node sound: see TestRefutedVariants there.
func mutants() []mutant {
	return slices.Concat(votingMutants, validityMutants, extensionMutants, cleanupMutants, nodeMutants, admissionMutants,
		queueMutants, sharedMutants, exportMutants, lateMutants)
}

// worlds are made for the mutants.
var worlds = map[string]func(p *profile){"steps": steps, "returns": returns, "pauses": pauses, "losses": losses,
	"losses unheard": lossesUnheard,
	"one by one":     oneByOne, "cuts": cuts, "idle": idle, "calm": calm, "calm waits": calmWaits, "queueing": queueing,
	"crowd": crowd,
	"rush":  rush, "busy": busy, "strangers": strangers, "restores": restores, "wipes": wipes, "twice lost": twiceLost,
	"alone": alone, "late cuts": lateCuts, "paused trying": pausedTrying,
	"paused in the queue": pausedInQueue, "sharing": shares, "late answers": tardy, "late answers, sharing": tardySharing,
	"late answers, alone": tardyAlone, "late grants": tardyTrying,
	"sharing, steps": sharedSteps, "sharing, all requests twice": downgrading, "handing over": handing,
	"handing over, steps": handingSteps, "handing over, losses": handingLosses}

// steps is a world of leases that vanish, and of registers that differ.
func steps(p *profile) {
	p.breaks, p.unset, p.only = steadyClocks, true, nodeStepped
	p.pace, p.trip, p.rest = 50*time.Millisecond, 20*time.Millisecond, 30*time.Millisecond
	p.loss, p.tail = 20_000, 50_000
	p.ordered, p.starters, p.twice = false, false, 0
}

// returns is such a world, of acquires that arrive after others came and went.
func returns(p *profile) {
	steps(p)
	p.nodes, p.loss, p.tail, p.hold = 3, 0, 100_000, 2*time.Second
}

func pauses(p *profile) {
	p.only, p.pace, p.loss, p.tail = pausedForTTL, 400*time.Millisecond, 0, 0
}

// pausedTrying is a world of clients that are paused in mid-attempt.
func pausedTrying(p *profile) {
	*p = profile{nodes: 2, noQueues: 2, users: 1, loss: 50_000, unset: true, only: pausedForTTL,
		trip: 24 * time.Millisecond,
		pace: time.Second, rest: 30 * time.Millisecond, hold: 20 * time.Millisecond}
}

// pausedHolding is the same with three nodes, where locks are held for longer.
func pausedHolding(p *profile) {
	pausedTrying(p)
	p.hold, p.nodes = 300*time.Millisecond, 3
}

// pausedInQueue is the same as pausedTrying where nodes keep queues.
func pausedInQueue(p *profile) {
	pausedTrying(p)
	p.noQueues = 0
}

// lateCuts is a world of answers that come late, and of clients that are cut off
// after them.
func lateCuts(p *profile) {
	cuts(p)
	p.nodes, p.loss, p.tail, p.ordered, p.starters, p.twice, p.breaks = 1, 20_000, 300_000, false, false, 0, 0
	p.rest, p.idle = 30*time.Millisecond, false
}

// busy is a calm world of processes with several users.
func busy(p *profile) {
	calm(p)
	p.users, p.rest, p.hold = 3, 30*time.Millisecond, 500*time.Millisecond
}

func losses(p *profile) { p.only, p.pace = emptied, 400*time.Millisecond }

// lossesUnheard is a world of all faults. Nodes that were emptied do not hear from all others in
// it, and too seldom lock to learn from that.
func lossesUnheard(p *profile) {
	p.nodes, p.breaks, p.twice, p.unset, p.loss, p.pace = 3, 0, 0, true, 100_000, 150*time.Millisecond
	p.rest, p.idle, p.hold = 20*time.Second, true, 20*time.Millisecond
}

// oneByOne is a world of locks that are held for long, while one node after the other loses
// its memory.
func oneByOne(p *profile) {
	p.nodes, p.users, p.only, p.pace, p.hold, p.rest, p.idle = 3, 1, emptied, 4*time.Second, time.Minute, time.Second,
		false
	p.breaks, p.loss, p.tail, p.trip = 0, 0, 0, 500*time.Microsecond
}

func cuts(p *profile) { p.only, p.pace, p.hold = clientCut, 400*time.Millisecond, 10*time.Second }

// idle is a world of few locks.
func idle(p *profile) {
	p.users, p.rest, p.idle, p.hold = 1, 20*time.Second, true, 10*time.Second
}

// calm is a world in which nothing goes wrong but that callers give up, and that
// answers may come too late.
func calm(p *profile) {
	*p = profile{nodes: max(p.nodes, 3), users: p.users, only: gaveUpTrying, trip: 20 * time.Millisecond,
		pace: 50 * time.Millisecond, rest: 500 * time.Millisecond, hold: 20 * time.Millisecond}
}

func calmWaits(p *profile) {
	calm(p)
	p.only, p.hold = gaveUpWaiting, 2*time.Second
}

// queueing is a calm world in which the order of service shows.
func queueing(p *profile) {
	calm(p)
	p.users, p.agree, p.idle, p.rest, p.hold, p.trip, p.pace = 1, true, true, 20*time.Second, 10*time.Second,
		3*time.Millisecond, 4*time.Second
	p.only = gaveUpWaiting
}

// crowd is one of many waiters.
func crowd(p *profile) {
	queueing(p)
	p.idle, p.rest, p.hold, p.trip = false, 30*time.Millisecond, 2*time.Second, 20*time.Millisecond
}

// rush is a crowd that is served fast.
func rush(p *profile) {
	queueing(p)
	p.idle, p.rest, p.hold, p.trip = false, 20*time.Millisecond, 5*time.Millisecond, 300*time.Microsecond
}

func five(p *profile) { p.nodes = 5 }

// all breaks several things.
func all(broken ...func(r *rules)) func(r *rules) {
	return func(r *rules) {
		for _, f := range broken {
			f(r)
		}
	}
}

// requesting has f send the requests, in the place of client.request.
func requesting(f func(c *process, to int, q node.Request, done func(node.Answer))) func(r *rules) {
	return func(r *rules) { r.request = f }
}

// asking has f change the requests.
func asking(f func(c *process, q *node.Request)) func(r *rules) {
	return requesting(func(c *process, to int, q node.Request, done func(node.Answer)) {
		f(c, &q)
		c.request(to, q, done)
	})
}

// hung is a node that executes what it is asked for and never answers.
var hung = requesting(func(c *process, to int, q node.Request, done func(node.Answer)) {
	if to == 0 {
		c.missed(to, c.w.now)
		done = func(node.Answer) {}
	}
	c.request(to, q, done)
})

// limiting gives some requests another time limit, or all if none is named.
func limiting(limit func(c *process) time.Duration, of ...core.Op) func(r *rules) {
	return func(r *rules) {
		r.timeout = func(c *process, op core.Op, _ time.Duration) time.Duration {
			if slices.Contains(of, op) || len(of) == 0 {
				return limit(c)
			}
			return c.nodeTimeout
		}
	}
}

// answer is what an attempt is told: that of a node to an acquire, a confirm or an extend.
type answer struct {
	of    core.Op
	late  bool // of an acquire: the attempt was told before that there is none
	node  int
	round uint32      // of an extend
	asked fence.Token // of a confirm, or the floor of an extend
	core.Reply
	now time.Duration
}

// broken is an attempt of which a test answers some questions wrongly: those whose
// functions it sets. The others are the honest attempt's.
type broken struct {
	shell.Attempt
	p            core.Params
	heard        []answer // about acquires, in time
	granted      core.Set // of them
	on           func(x answer) core.Action
	tick         func(now time.Duration)
	startExtend  func(now time.Duration) core.Action
	renew        func(now time.Duration) core.Action
	startRelease func(now time.Duration) core.Action
	cancel       func() core.Action
}

// honest tells the honest attempt.
func (b *broken) honest(x answer) core.Action {
	switch {
	case x.late:
		return b.Attempt.OnLateAcquire(x.node, x.Reply, x.now)
	case x.of == core.Acquire:
		return b.Attempt.OnAcquire(x.node, x.Reply, x.now)
	case x.of == core.Confirm:
		return b.Attempt.OnConfirm(x.node, x.asked, x.Reply, x.now)
	}
	return b.Attempt.OnExtend(x.node, x.round, x.asked, x.Reply, x.now)
}

// answers breaks what is done at the answers to an operation that are not late.
func (b *broken) answers(of core.Op, f func(x answer) core.Action) {
	others := b.on
	b.on = func(x answer) core.Action {
		if x.of == of && !x.late {
			return f(x)
		}
		return others(x)
	}
}

// extends breaks the beginning of extensions, those that go on too.
func (b *broken) extends(f func(now time.Duration, extend func(time.Duration) core.Action) core.Action) {
	honest := b.Attempt
	b.startExtend = func(now time.Duration) core.Action { return f(now, honest.StartExtend) }
	b.renew = func(now time.Duration) core.Action { return f(now, honest.Renew) }
}

func newBroken(a shell.Attempt, p core.Params) *broken {
	b := &broken{Attempt: a, p: p, tick: a.Tick, startExtend: a.StartExtend, renew: a.Renew,
		startRelease: a.StartRelease, cancel: a.Cancel}
	b.on = b.honest
	return b
}

// breaking has each attempt broken by f, which is given the honest one.
func breaking(f func(l *lock, b *broken)) func(r *rules) {
	return func(r *rules) {
		r.attempt = func(l *lock, a shell.Attempt, p core.Params) shell.Attempt {
			b := newBroken(a, p)
			f(l, b)
			return b
		}
	}
}

// mishearing has attempts be told something else.
func mishearing(f func(b *broken, x *answer)) func(r *rules) {
	return breaking(func(_ *lock, b *broken) {
		b.on = func(x answer) core.Action {
			f(b, &x)
			return b.honest(x)
		}
	})
}

func (b *broken) OnAcquire(node int, r core.Reply, now time.Duration) core.Action {
	x := answer{of: core.Acquire, node: node, Reply: r, now: now}
	b.heard = append(b.heard, x)
	if r.Status == core.Granted {
		b.granted = b.granted.With(node)
	}
	return b.on(x)
}

func (b *broken) OnLateAcquire(node int, r core.Reply, now time.Duration) core.Action {
	return b.on(answer{of: core.Acquire, late: true, node: node, Reply: r, now: now})
}

func (b *broken) OnConfirm(node int, asked fence.Token, r core.Reply, now time.Duration) core.Action {
	return b.on(answer{of: core.Confirm, node: node, asked: asked, Reply: r, now: now})
}

func (b *broken) OnExtend(node int, round uint32, asked fence.Token, r core.Reply, now time.Duration) core.Action {
	return b.on(answer{of: core.Extend, node: node, round: round, asked: asked, Reply: r, now: now})
}

func (b *broken) Tick(now time.Duration)                     { b.tick(now) }
func (b *broken) StartExtend(now time.Duration) core.Action  { return b.startExtend(now) }
func (b *broken) Renew(now time.Duration) core.Action        { return b.renew(now) }
func (b *broken) StartRelease(now time.Duration) core.Action { return b.startRelease(now) }
func (b *broken) Cancel() core.Action                        { return b.cancel() }

// acquires makes up a reply of some nodes to the acquire, as far as it matters.
func (b *broken) acquires(action core.Action, nodes core.Set, r core.Reply, now time.Duration) core.Action {
	for i := range b.p.Nodes {
		if nodes.Has(i) && b.Phase() == core.Acquiring {
			action = b.Attempt.OnAcquire(i, r, now)
		}
	}
	return action
}

// confirms makes up that all nodes have confirmed.
func (b *broken) confirms(token fence.Token, now time.Duration) {
	for i := range b.p.Nodes {
		if b.Phase() == core.Confirming {
			b.Attempt.OnConfirm(i, token, core.Reply{Status: core.Granted, Register: token}, now)
		}
	}
}

// become puts another attempt in the place of the honest one, which copied copies.
func (b *broken) become(other core.Attempt) { *b.Attempt.(*core.Attempt) = other }
func (b *broken) copied() core.Attempt      { return *b.Attempt.(*core.Attempt) }

// hunt makes runs until something is noticed. It returns the violations of the last one up to that,
// none if nothing is, and how many runs it made.
func (m mutant) hunt(most int, steps bool, noticed func(Violation) bool) (found []Violation, seeds int) {
	rules := shipped()
	m.broken(&rules)
	for seed := range most {
		r := Run(uint64(seed), Options{rules: &rules, profile: m.where, enough: noticed, Steps: steps})
		if i := slices.IndexFunc(r.Violations, noticed); i >= 0 {
			return r.Violations[:i+1], seed + 1
		}
	}
	return nil, most
}

func TestMutants(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "| what is broken | found by | after seeds |\n|---|---|---|\n")
	for _, m := range mutants() {
		if !campaign && m.seeds > 300 {
			continue // each list has others, which are noticed sooner
		}
		t.Run(m.name, func(t *testing.T) {
			found, seeds := m.hunt(m.seeds, false, func(v Violation) bool { return slices.Contains(m.checks, v.Check) })
			if found == nil {
				t.Fatalf("not noticed in %d seeds", seeds)
			}
			by := found[len(found)-1]
			t.Logf("after %d seeds: %v", seeds, by)
			name := m.name
			if m.seen != "" {
				name += " (" + m.seen + ")"
			}
			fmt.Fprintf(&table, "| %s | %s | %d |\n", name, by.Check, seeds)
		})
	}
	t.Logf("%d mutants\n%s", len(mutants()), table.String())
}

// What the shipped code does in the worlds that are made for the mutants. A mistake is noticed
// there for what it is, not for the world.
func TestShippedAmongTheMutants(t *testing.T) {
	seeds, most := uint64(100), 2_000_000
	if !campaign {
		seeds, most = 3, 100_000
	}
	hold := func(name string, where func(*profile), change func(*rules)) {
		rules := shipped()
		change(&rules)
		t.Run(name, func(t *testing.T) {
			events := 0
			for seed := uint64(0); seed < seeds && events < most; seed++ {
				r := Run(seed, Options{profile: where, rules: &rules, Steps: true})
				events += r.Events
				for _, v := range r.Violations {
					t.Errorf("seed %d: %v", seed, v)
				}
			}
		})
	}
	for name, where := range worlds {
		hold(name, where, all())
	}
	hold("a node that hangs", five, hung)
	hold("paused before the mark", twiceLost, pausedBeforeTheMark)
	// No promise rests on the numbers that are proposed.
	hold("any proposal", nil, func(r *rules) { r.params = func(p *core.Params) { p.Proposal = 0 } })
}
