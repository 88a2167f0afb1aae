package shell

import (
	"context"
	"math"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// Acquisition is one caller of a Client: its attempts, its wait between them, and
// the lock that it comes to. The zero Acquisition is not begun. It is safe for
// concurrent use, and must not be copied.
type Acquisition struct {
	client *Client
	values context.Context
	terms  Terms
	owner  Owner
	waits  bool      // it is an Acquire
	from   *Exported // what is adopted; nil: nothing is

	first Lock       // its first attempt, which mostly is the only one
	queue localQueue // of its name, if it came first

	waiter // its mutex guards the rest

	state     state
	lock      *Lock // the latest attempt
	attempts  int
	cancelled bool
	isClosed  bool
	known     Failure // why it waits, as the owner was told
	latest    time.Duration
	paced     bool // it waits for its turn: see pacing
	vain      bool // its latest attempt found no quorum
	timer     Timer
}

// state is where an Acquisition stands.
type state uint8

const (
	queued   state = iota // behind others of its process
	trying                // an attempt is under way
	entering              // the nodes are told where to reach it
	sleeping              // until it is time to try again
	over
)

// Owner is who is told what becomes of an Acquisition. The methods Held, Extended, Ended and Freed
// are called with a mutex of the lock held. They return at once, and call no method of the lock.
type Owner interface {
	// Waiting tells why the caller waits, when it begins to, and when the reason
	// changes.
	Waiting(why *Failure)
	// Held tells that the lock is held, before Done, and whether the nodes gave it, for a moment,
	// to its waiter.
	Held(token fence.Token, given bool)
	// Extended tells what an extension has come to, and the validity that is left.
	Extended(left time.Duration, why Failure)
	// Done tells that the acquisition is over. If it did not fail, Lock is held.
	Done(f Failure)
	// Ended tells why the lock is not held any more, and the validity that was left if it
	// is being released.
	Ended(why Failure, left time.Duration)
	// Freed tells what its release came to.
	Freed(f Failure)
}

func (a *Acquisition) init(c *Client, values context.Context, name string, terms Terms, owner Owner) {
	a.client, a.values, a.terms, a.owner = c, values, terms, owner
	a.name, a.label, a.shared, a.of = name, terms.Label, terms.Shared, a
	a.retry = c.group.Rules.Retry(&a.own)
}

// Terms returns those that it was begun with.
func (a *Acquisition) Terms() Terms { return a.terms }

// Lock returns the latest attempt: once Done was told of no failure, the lock.
func (a *Acquisition) Lock() *Lock {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lock
}

// wait begins an Acquire.
func (a *Acquisition) wait() {
	c := a.client
	a.own = core.NewRetry(len(c.group.Peers))
	a.waits, a.waiting = true, true
	if a.arrived = a.terms.Arrived; a.arrived == 0 {
		a.arrived = c.group.Env.Now()
	}
	if c.queues.enter(a, a.name, &a.queue) {
		a.try()
		return
	}
	a.told(c.queues.reason(a, a.name))
	if c.Closed() {
		a.closed()
	}
}

// promoted implements caller: no caller of this process is before it any more.
func (a *Acquisition) promoted() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == queued {
		a.state = trying
		a.client.group.Env.Go(a.try)
	}
}

// begin begins an attempt.
func (a *Acquisition) begin(l *Lock, start time.Duration) {
	g := a.client.group
	if a.waits {
		s := a.client.waiters
		if s.ready() {
			s.enter(&a.waiter)
		}
		s.giveBackAll(&a.waiter) // too little was given, or with different numbers
		a.mu.Lock()
		a.retry.Begin()
		a.mu.Unlock()
	}
	l.begin(g, a, a.name, &a.terms, a.from, a.values, start)
}

// attempt returns the lock of the attempt that begins now, with the mutex held.
func (a *Acquisition) attempt() *Lock {
	l := &a.first
	if a.attempts > 0 {
		l = new(Lock)
	}
	a.attempts++
	a.state, a.lock = trying, l
	return l
}

// take makes what was given to the waiter its lock, in the state trying.
func (a *Acquisition) take(number fence.Token, until time.Duration) {
	g := a.client.group
	a.mu.Lock()
	if a.cancelled || a.isClosed || g.inflight.isClosed() {
		a.mu.Unlock()
		a.try() // which says so
		return
	}
	g.observe(number) // a quorum has told it: any client that may publish can send one notice
	a.given.Take(number)
	holder := node.Given(a.at.Waiter, number)
	l := a.attempt()
	a.mu.Unlock()
	l.take(g, a, a.name, &a.terms, holder, number, until, a.values, g.Env.Now())
}

// Cancel gives the acquisition up, unless it is over.
func (a *Acquisition) Cancel() {
	a.mu.Lock()
	a.cancelled = true
	state, l := a.state, a.lock
	a.mu.Unlock()
	switch {
	case state == over:
	case state != trying:
		a.giveUp()
	case l != nil:
		l.cancel()
	}
}

// giveUp ends it with the reason of the last attempt, or of the one before it in
// the local queue.
func (a *Acquisition) giveUp() {
	f := Failure{Reason: core.Cancelled}
	a.mu.Lock()
	state := a.state
	if a.known.Failed() {
		known := a.known
		f.Last = &known
	}
	a.mu.Unlock()
	if state == queued {
		f.Last = a.client.queues.reason(a, a.name)
	}
	a.end(f)
}

// closed implements caller.
func (a *Acquisition) closed() {
	a.mu.Lock()
	a.isClosed = true
	ends := a.state != trying && a.state != over
	a.mu.Unlock()
	if ends {
		a.end(Failure{Closed: true})
	}
}

// decided implements owner: an attempt has ended.
func (a *Acquisition) decided(l *Lock) {
	f := &l.failure
	a.vain = f.Reason == core.NoQuorum
	switch {
	case !f.Failed(), f.permanent(len(a.client.group.Peers)):
		a.end(*f)
		return
	case !a.waits:
		a.meetAgain(l)
		return
	case f.Reason == core.Cancelled:
		a.giveUp()
		return
	}
	a.client.queues.tell(a, a.name, f)
	// Another program's release sends no notification.
	a.tryLater(l.refusals, f.Reason == core.Contended && f.HeldBy == "")
}

// meetAgain makes another attempt soon for a caller that does not wait, if several may have met and
// none has the lock. Of five machines that start a job at the same moment one has to get it.
// Otherwise, and after some attempts, it is over.
func (a *Acquisition) meetAgain(l *Lock) {
	g := a.client.group
	a.mu.Lock()
	attempts := a.attempts
	a.known = l.failure // for a caller that gives up meanwhile
	a.mu.Unlock()
	if !l.failure.Met || attempts >= core.MeetAttempts || a.from != nil {
		a.end(l.failure)
		return
	}
	a.sleep(g.Env.Now() + core.MeetDelay(attempts, l.took(), g.Env.Random()))
}

// tryLater decides when it is time to try again. Polls: the lock's holder is unlikely to notify
// waiters.
func (a *Acquisition) tryLater(said []core.Refusal, polls bool) {
	c := a.client
	g := c.group
	random := g.Env.Random()
	switch {
	case c.waiters.queues == 0:
		a.poll(said, random)
		return
	case !a.inQueue():
		if !a.enterState(entering) {
			return
		}
		// Try again once notifications can come: the lock may have become free before.
		c.waiters.listen(func() {
			if !a.enterState(trying) {
				return
			}
			if c.waiters.enter(&a.waiter) {
				a.try()
				return
			}
			a.poll(said, random) // no node has told its time
		})
		return
	}
	polls = polls || !c.waiters.notifiable()
	for i := range said {
		if !c.waiters.queues.Has(i) {
			said[i].Ahead = -1
		}
	}
	a.mu.Lock()
	a.retry.Refused(g.Env.Now(), said, polls, random)
	a.mu.Unlock()
	a.sleep(math.MaxInt64)
}

// poll has it try again, without any queue.
func (a *Acquisition) poll(said []core.Refusal, random float64) {
	now := a.client.group.Env.Now()
	a.sleep(now + core.PollDelay(said, now-a.first.Begun(), now-a.Lock().Begun(), random))
}

// enterState changes the state, and reports false if the acquisition is over then:
// the caller has given up, or the Client was closed.
func (a *Acquisition) enterState(s state) bool {
	a.mu.Lock()
	before, cancelled, closed := a.state, a.cancelled, a.isClosed
	if before != over {
		a.state = s
	}
	a.mu.Unlock()
	switch {
	case before == over:
		return false
	case cancelled:
		a.giveUp()
		return false
	case closed:
		a.end(Failure{Closed: true})
		return false
	}
	return true
}

// sleep waits until the latest time, or until its retry says that it is time.
func (a *Acquisition) sleep(latest time.Duration) {
	a.mu.Lock()
	a.latest = latest
	a.mu.Unlock()
	if a.enterState(sleeping) {
		a.hurried()
	}
}

// hurried implements hurried: it looks again at when it is time.
func (a *Acquisition) hurried() {
	g := a.client.group
	a.mu.Lock()
	if a.state != sleeping {
		tries, l := a.state == trying, a.lock
		a.mu.Unlock()
		if tries && a.waits && l != nil {
			g.Env.Go(l.hurry) // it may be a node's goroutine
		}
		return
	}
	now := g.Env.Now()
	if number, until, given := a.given.Best(len(g.Peers), now); given {
		a.state = trying
		if a.timer != nil {
			a.timer.Stop()
		}
		if a.paced {
			a.paced = false
			g.pacing.leave(a, a.waits)
		}
		a.mu.Unlock()
		a.take(number, until)
		return
	}
	if !a.waits && a.paced && now >= a.latest { // a single attempt does not wait for longer
		closed := a.isClosed || g.inflight.isClosed()
		a.paced = false // if its turn comes now, it makes no use of it
		g.pacing.leave(a, a.waits)
		a.mu.Unlock()
		if closed {
			a.end(Failure{Closed: true})
		} else {
			a.end(tooManyAttempts(len(g.Peers)))
		}
		return
	}
	defer a.mu.Unlock()
	if a.paced {
		if a.waits && a.retry.Invited() {
			a.state, a.paced = trying, false
			g.pacing.leave(a, a.waits)
			g.Env.Go(a.try)
		}
		return
	}
	due := a.latest
	if a.at.Waiter != "" {
		due = min(due, a.retry.Due())
	}
	left := due - now
	switch {
	case left <= 0:
		a.state = trying
		if a.timer != nil {
			a.timer.Stop()
		}
		g.Env.Go(a.try)
	case a.timer == nil:
		a.timer = g.Env.AfterFunc(left, a.hurried)
	default:
		a.timer.Reset(left)
	}
}

// end tells the owner what the acquisition has come to, once. A waiter that got no
// lock leaves the queues; one that did leaves those that are left with the lock's
// release.
func (a *Acquisition) end(f Failure) {
	a.mu.Lock()
	if a.state == over {
		a.mu.Unlock()
		return
	}
	a.state, a.waiting = over, false
	if a.paced {
		a.client.group.pacing.leave(a, a.waits)
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	inQueue := a.at.Waiter != ""
	a.mu.Unlock()
	if a.waits {
		a.client.queues.leave(a, a.name)
	}
	switch {
	case !inQueue:
	case !a.isShown():
		a.client.waiters.forget(&a.waiter)
	case f.Failed(), a.terms.AtLeast > 0: // there may be no release
		a.client.waiters.leaveAll(&a.waiter)
	default:
		a.client.waiters.giveBackAll(&a.waiter)
		if a.parts() { // otherwise it hears until its lock has ended of what else is given to it
			a.client.waiters.forget(&a.waiter)
		}
	}
	a.owner.Done(f)
}

// Leave takes the caller, which has the lock, out of the queues that it is still in, of nodes that
// were not needed. It is for a lock that may not be released here.
func (a *Acquisition) Leave() {
	if a.inQueue() {
		a.client.waiters.leaveAll(&a.waiter)
	}
}

// told implements caller.
func (a *Acquisition) told(why *Failure) {
	if why == nil {
		return
	}
	a.mu.Lock()
	silent := a.state == over || !a.waiting || why.same(&a.known)
	if a.state != over {
		a.known = *why
	}
	a.mu.Unlock()
	if !silent {
		a.owner.Waiting(why)
	}
}

// held implements owner.
func (a *Acquisition) held(token fence.Token, given bool) {
	a.stop()
	a.owner.Held(token, given)
}

// extended implements owner.
func (a *Acquisition) extended(left time.Duration, why Failure) { a.owner.Extended(left, why) }

// enqueued implements owner: a node may have put the waiter into its queue after it
// was told that the wait is over.
func (a *Acquisition) enqueued(node int) {
	if !a.isWaiting() && a.inQueue() {
		a.client.waiters.leave(node, &a.waiter)
		a.client.waiters.giveBackAll(&a.waiter)
	}
}

// ended implements owner.
func (a *Acquisition) ended(why Failure, left time.Duration) {
	if a.part(why.Reason == core.Exported) {
		a.client.waiters.forget(&a.waiter)
	}
	a.owner.Ended(why, left)
}

// freed implements owner.
func (a *Acquisition) freed(f Failure) { a.owner.Freed(f) }
