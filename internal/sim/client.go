package sim

import (
	"context"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
)

// client is one process with one shell.Client.
type client struct {
	process
	all        *[]*client // of the run
	shellRules shell.Rules
	maxHold    time.Duration

	shell   *shell.Client
	held    []*lock
	waiting [][]*acquisition // by name: calls of Acquire that have not returned
	closing bool
}

// begin starts the process: a new process knows nothing of the one before.
func (c *client) begin(epoch int) {
	w := c.w
	c.start(epoch)
	c.held, c.closing = nil, false
	c.waiting = make([][]*acquisition, len(w.names))
	e := &env{c: &c.process}
	config := shell.Config{Env: e, Terms: shell.Terms{TTL: c.ttl, MaxHold: c.maxHold, Label: "label"},
		NodeTimeout: c.nodeTimeout, Rules: c.shellRules}
	for i := range c.nodes {
		config.Peers = append(config.Peers, &peer{c: &c.process, node: i})
	}
	c.shell = shell.NewClient(config)
	c.identity = e.newest // it makes one, for its waiters
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

	onEnd, onReleased, onFreed func() // freed: released by its holder
}

// isWaiter is told how the nodes know it.
func (a *acquisition) isWaiter(waiter string) { a.waiter = waiter }

// acquire begins an acquisition. The result is told once.
func (c *client) acquire(name int, wait, shared bool, result func(*lock)) *acquisition {
	a := &acquisition{c: c, name: name, waits: wait, shared: shared, came: c.w.now, result: result}
	terms := c.shell.Terms()
	terms.Shared = shared
	values := context.WithValue(context.Background(), caller{}, a)
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
	l.hasEnded()
	if a.onEnd != nil {
		a.c.spawn(a.onEnd)
	}
}

// Freed implements shell.Owner.
func (a *acquisition) Freed(f shell.Failure) {
	if a.onFreed != nil && a.letGo && !f.Failed() {
		a.onFreed()
	}
	if a.onReleased != nil {
		a.c.spawn(a.onReleased)
	}
}
