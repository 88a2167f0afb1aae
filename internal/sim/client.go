package sim

import (
	"context"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/check"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// client is one process with one shell.Client.
type client struct {
	w     *world
	id    int
	clock clock
	wall  time.Duration // what its wall clock is ahead of true time

	ttl, nodeTimeout, maxHold time.Duration

	epoch       int // counts its lives: a process that was killed starts anew
	pausedUntil time.Duration
	links       []link // to the nodes
	sent        uint64 // requests
	terms       admit.Terms
	says        bool  // that all servers are new
	batches     bool  // it sends the identity that it knows with each request
	known       []int // by node: the store's identity, 0: it is not known
	admissions  []admission
	healing     check.Healing

	shell    *shell.Client
	identity string // of its waiters
	newest   uint64 // of them in a queue
	notify   []func(waiter string)
	held     []*lock
	users    []*user          // each in a goroutine of its own
	waiting  [][]*acquisition // by name: calls of Acquire that have not returned
	closing  bool
}

func (c *client) now() time.Duration { return c.clock.local(c.w.now) }

// spawn runs f in a goroutine of its own, as it were.
func (c *client) spawn(f func()) { c.w.atOf(c, c.w.now+c.w.upTo(20*time.Microsecond), f) }

// after runs f when so much time has passed on the client's clock.
func (c *client) after(d time.Duration, f func()) {
	c.w.atOf(c, c.clock.truth(c.now()+max(d, 0)), f)
}

// notified takes what a node says.
func (c *client) notified(node int, waiter string) {
	if notify := c.notify[node]; notify != nil {
		notify(waiter)
	}
}

// begin starts the process: a new process knows nothing of the one before.
func (c *client) begin(epoch int) {
	w := c.w
	c.epoch, c.pausedUntil, c.newest, c.held, c.closing = epoch, 0, 0, nil, false
	c.healing = check.NewHealing(len(w.nodes), core.Quorum(len(w.nodes)), c.ttl)
	c.notify = make([]func(string), len(w.nodes))
	c.known, c.admissions = make([]int, len(w.nodes)), make([]admission, len(w.nodes))
	c.waiting = make([][]*acquisition, len(w.names))
	e := &env{c: c}
	config := shell.Config{Env: e, Terms: shell.Terms{TTL: c.ttl, MaxHold: c.maxHold, Label: "label"},
		NodeTimeout: c.nodeTimeout, Rules: clientRules{c: c}}
	for i := range w.nodes {
		config.Peers = append(config.Peers, &peer{c: c, node: i})
	}
	c.shell = shell.NewClient(config)
	c.identity = e.newest // it makes one, for its waiters
	for i, u := range c.users {
		c.users[i] = &user{c: c, id: u.id}
		for name := range w.names {
			c.users[i].left = append(c.users[i].left, (name+u.id)%len(w.names))
		}
	}
}

// acquisition is one call of Acquire, or of TryAcquire. It implements shell.Owner.
type acquisition struct {
	c      *client
	name   int
	waits  bool
	shared bool
	came   time.Duration // true time
	waiter string        // as the nodes know it; empty if they do not
	lock   *lock         // the latest attempt, nil while it is behind others of its process
	tries  int
	over   bool // it has returned
	gaveUp bool
	shell  shell.Acquisition
	result func(*lock) // nil: no lock

	from    *lock         // whose lock it adopts, nil: none
	maxHold time.Duration // what was left of that one's
	text    *shell.Exported
	letGo   bool // it was held until its release

	onEnd, onReleased func()
}

type acquisitionKey struct{}

// acquire begins an acquisition. The result is told once.
func (c *client) acquire(name int, wait, shared bool, result func(*lock)) *acquisition {
	a := &acquisition{c: c, name: name, waits: wait, shared: shared, came: c.w.now, result: result}
	terms := c.shell.Terms()
	terms.Shared = shared
	values := context.WithValue(context.Background(), acquisitionKey{}, a)
	if wait {
		c.waiting[name] = append(c.waiting[name], a)
		c.shell.Acquire(&a.shell, values, c.w.names[name], terms, a)
	} else {
		c.shell.TryAcquire(&a.shell, values, c.w.names[name], terms, a)
	}
	return a
}

// cancel is the end of the caller's context, at whatever point.
func (a *acquisition) cancel() {
	if a.over || a.gaveUp {
		return
	}
	a.gaveUp = true
	a.shell.Cancel()
}

// Waiting implements shell.Owner.
func (a *acquisition) Waiting(*shell.Failure) {}

// Held implements shell.Owner.
func (a *acquisition) Held(fence.Token, bool) {}

// Extended implements shell.Owner.
func (a *acquisition) Extended(time.Duration, shell.Failure) {}

// Done implements shell.Owner.
func (a *acquisition) Done(f shell.Failure) {
	c := a.c
	if a.over {
		c.w.violate("progress", "an acquisition returns twice")
	}
	a.over = true
	c.w.check(always, "cost", a.tooOften())
	if a.waits {
		c.waiting[a.name] = slices.DeleteFunc(c.waiting[a.name], func(other *acquisition) bool { return other == a })
	}
	l := a.lock
	if f.Failed() {
		l = nil
	}
	c.spawn(func() { a.result(l) })
}

// Ended implements shell.Owner.
func (a *acquisition) Ended(why shell.Failure, _ time.Duration) {
	l := a.lock
	l.ended, a.letGo = true, why.Reason == core.LetGo
	a.c.w.endedBy(l)
	if a.onEnd != nil {
		a.c.spawn(a.onEnd)
	}
}

// Freed implements shell.Owner.
func (a *acquisition) Freed(f shell.Failure) {
	if w := a.c.w; a.from != nil && a.letGo && !f.Failed() && !w.quiet && w.chance(500_000) {
		a.c.spawn(func() { w.adoptAgain(a) })
	}
	if a.onReleased != nil {
		a.c.spawn(a.onReleased)
	}
}

// lock is one attempt, and what becomes of it, as the checkers see it.
type lock struct {
	c       *client
	a       *acquisition
	id      int // of the attempt, in the whole run
	holder  node.Holder
	name    int
	start   time.Duration // on the client's clock
	asked   time.Duration // the nodes, first, in true time
	began   time.Duration // in true time; later than asked if the nodes gave it
	attempt shell.Attempt
	watch   *watch

	decided    bool
	ended      bool // what the lock's context says
	extendedAt time.Duration
	ttl        time.Duration
	rounds     []extending // the latest
	until      time.Duration
	given      time.Duration // the validity with which the nodes gave it
	brief      time.Duration // the same if a stall may outlast it
	carried    uint32        // the newest extension that was
	round      uint32        // of the newest extension that a node refused
	refusers   core.Set      // in that round
	released   bool
}

// extending is an extension.
type extending struct {
	round     uint32
	at, local time.Duration // when it began, in true time and on the client's clock
}

// extends begins an extension, or goes on with one.
func (l *lock) extends(now time.Duration, begin func(time.Duration) core.Action) core.Action {
	before, _ := l.attempt.Extension()
	action := begin(now)
	if round, _ := l.attempt.Extension(); round != before {
		l.extend(round, now)
	}
	return action
}

const remembered = 8 // extensions

// extend notes that an extension has begun.
func (l *lock) extend(round uint32, now time.Duration) {
	l.extendedAt = l.c.w.now
	if len(l.rounds) == remembered {
		l.rounds = slices.Delete(l.rounds, 0, 1)
	}
	l.rounds = append(l.rounds, extending{round, l.extendedAt, now})
}

// countsFrom returns the extension from whose start a validity is counted. Of a validity that the
// maximum hold bounds it returns all from which it may be.
func (l *lock) countsFrom(until time.Duration) (could []extending) {
	for _, x := range l.rounds {
		switch end := core.Validity(x.local, l.ttl); {
		case end == until:
			return []extending{x}
		case end > until:
			could = append(could, x)
		}
	}
	return could
}

func (l *lock) token() fence.Token { return l.attempt.Token() }

// extendNow is Lock.Extend.
func (l *lock) extendNow() { l.a.shell.Lock().Extend(nobody{}) }

// downgrade is Lock.Downgrade.
func (l *lock) downgrade() {
	w := l.c.w
	w.result.Downgraded++
	l.a.shared = true
	w.validity.Shares(l.name, l.id)
	w.tokens.Shares(l.name, l.id)
	l.a.shell.Lock().Share()
	l.extendNow()
}

// no caller waits for an extension.
type nobody struct{}

func (nobody) Extended(shell.Failure) {}

// release is Lock.Release.
func (l *lock) release(done func()) {
	l.released, l.a.onReleased = true, done
	l.c.w.note("client %[1]d releases attempt %[2]d", l.c.id, l.id, 0, 0)
	l.a.shell.Lock().Release(true)
}
