package cas

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// Config is what a Node is told of itself, beside the Store.
type Config struct {
	Kind string // of the store, for errors: "mysql"
	Name string // what String returns; no password
	// Explain says in an error what a person can do about it, and marks what waiting does not mend.
	// Nil leaves errors as they are.
	Explain func(error) error
	// MaxRecord is how many bytes of leases, waiters and notices a record may have: what fits into
	// a request to the store, less 64. 0 is 4 MiB.
	MaxRecord int
	// Behind says that Load may return an old record. So a refusal is a write as well, as if it
	// were a grant.
	Behind bool
	// Exact says that Save compares all that Load looks at, the mark of admission too. The clock is
	// the record's then, and goes on as this process's does after a Save. So what this process has
	// saved last serves for promises too.
	Exact bool
	// Slack is by how much the store's clock may be ahead of what Load has returned. Each lease is
	// longer by as much, so that it lasts for at least its TTL.
	Slack time.Duration
}

// Node is what a node does whose store is a Store. It is for a node's type to embed, and implements
// node.Node, node.Sharer, node.Rejoiner, node.Admin and node.Finisher. It is safe for concurrent
// use. Make one with New; the zero Node is not usable.
type Node struct {
	self      node.Node
	config    Config
	store     Store
	teller    Teller // nil: waiters poll
	lines     *lines // nil without a teller
	admission *admit.Admission
	turns     engine.Turns
	recent    recent
	life      *engine.Lifetime

	now func() time.Duration // this machine's clock
}

// New returns the engine of a node, which has a Store. It sends nothing. The node's waiters poll:
// see NewQueued.
func New(self node.Node, s Store, c Config) *Node {
	if c.MaxRecord == 0 {
		c.MaxRecord = 4 << 20
	}
	return &Node{
		self: self, config: c, store: s,
		admission: admit.New(self, s, admit.Pause), life: engine.NewLifetime(), now: clock.ForTimers(),
	}
}

// String returns Config.Name.
func (n *Node) String() string { return n.config.Name }

// Member returns Config.Name, which all clients of a group call the node by. A node's type whose
// name has an address that may differ between them has a method of its own.
func (n *Node) Member() string { return n.config.Name }

// Engine returns the node that New was called with.
func (n *Node) Engine() any { return n.self }

// Shares implements node.Sharer.
func (n *Node) Shares() {}

// Admission returns what has the store admitted, for the other nodes of its group.
func (n *Node) Admission() *admit.Admission { return n.admission }

// Life is the node's, from New to Close: for what an adapter does beside the Store's methods.
func (n *Node) Life() *engine.Lifetime { return n.life }

// Finish implements node.Finisher: no operation waits any more for an admission.
func (n *Node) Finish() { n.admission.Finish() }

// Close ends what is under way, with an unknown outcome, and waits for it. Leases stay. It always
// returns nil. What an adapter has opened is its own to close after that.
func (n *Node) Close() error {
	n.life.End()
	n.admission.Close()
	n.life.Wait()
	return nil
}

// Fail names the node in the error of an operation, and explains it. nil stays nil. The contexts
// are those that may have ended it: see engine.Contextual.
func (n *Node) Fail(what string, err error, contexts ...context.Context) error {
	if err = engine.Contextual(err, contexts...); err != nil && n.config.Explain != nil {
		err = n.config.Explain(err)
	}
	return engine.Named(n.config.Kind+" "+n.config.Name, what, err)
}

// Run does something that Close ends and waits for, and names the node in its error.
func (n *Node) Run(ctx context.Context, what string, do func(ctx context.Context) error) error {
	inner, over, err := n.life.Begin(ctx)
	if err == nil {
		err = do(inner)
		over()
	}
	return n.Fail(what, err, ctx, n.life)
}

// Do implements node.Node. A lost race is no end: nothing was carried out, and it begins again.
func (n *Node) Do(ctx context.Context, r node.Request) (a node.Answer, err error) {
	if err := rule.CheckShared(r); err != nil {
		return a, n.Fail(r.Op.String(), err)
	}
	err = n.Run(ctx, r.Op.String(), func(ctx context.Context) error {
		a, err = n.serve(ctx, r)
		return err
	})
	if err != nil {
		return node.Answer{}, err
	}
	n.lines.heardOf(r, a)
	a.Remaining = n.shown(a.Remaining)
	return a, nil
}

// shown returns how much is left of a lease without the slack.
func (n *Node) shown(left time.Duration) time.Duration { return max(left-n.config.Slack, min(left, 1)) }

const (
	mostAgain  = 3 // how often in a row an ErrAgain is no end
	mostAdmits = 3 // how often an operation has the store admitted
	longRace   = 20 * time.Millisecond
)

// serve carries out a request when it is its turn, one at a time in each stripe.
func (n *Node) serve(ctx context.Context, r node.Request) (node.Answer, error) {
	stripe := node.Stripe(r.Name)
	leave, err := n.turns.Take(ctx, stripe)
	if err != nil {
		return node.Answer{}, node.NotSent(err)
	}
	defer leave()
	if a, done, err := n.atOnce(ctx, stripe, r); done {
		return a, err
	}
	again, admits := 0, 0
	for race := 0; ; {
		a, err := n.try(ctx, stripe, r)
		switch {
		case ctx.Err() != nil:
			return a, err
		case errors.Is(err, ErrConflict):
			// Half of it at random. The faster client needs the time of one write.
			engine.Pause(ctx, rand.N(min(time.Millisecond<<min(race, 5), longRace)))
			race, again = race+1, 0
		case errors.Is(err, ErrAgain) && again < mostAgain:
			again++
		case errors.Is(err, errAdmitted) && admits < mostAdmits:
			admits++
		case errors.Is(err, errAdmitted):
			return node.Answer{Status: node.Rejoining, Absence: node.Absence{Cause: node.Changed}}, nil
		default:
			return a, err
		}
	}
}

// errAdmitted is of an operation that did nothing but have the store admitted.
var errAdmitted = errors.New("the store was admitted meanwhile")

// atOnce carries out a request on what this process has saved last, with one Save. It is for a
// release and, if Save compares all that a promise needs, for whatever is granted. What is no grant
// on that may be old, and is not done. Where others wait the record is looked at at a release,
// since the name may be given to them.
func (n *Node) atOnce(ctx context.Context, stripe int, r node.Request) (a node.Answer, done bool, err error) {
	m, ok := n.recent.take(stripe)
	switch {
	case !ok || n.now()-m.at >= recentLife:
		return a, false, nil
	case r.Op == node.Release && len(m.Queues) > 0:
		return a, false, nil
	case r.Op != node.Release && (!n.config.Exact || n.recent.avoided(stripe) || n.permits(m.Loaded, r) != nil):
		return a, false, nil
	}
	a, err = n.save(ctx, stripe, r, m, m.Clock+max(n.now()-m.at, 0), true)
	switch {
	case err == nil && a.Status == node.Granted:
		return a, true, nil
	case err != nil && !errors.Is(err, node.ErrNotSent):
		return a, true, err // it may have been executed
	case err != nil:
		n.recent.wrong(stripe)
	}
	return a, false, nil
}

// try carries out a request, unless another client changes the record meanwhile. Until it writes,
// nothing is done.
func (n *Node) try(ctx context.Context, stripe int, r node.Request) (node.Answer, error) {
	l, err := n.store.Load(ctx, stripe)
	if err != nil {
		return node.Answer{}, node.NotSent(err)
	}
	at := n.now()
	close := l.Close
	l.Close = nil
	defer func() {
		if close != nil {
			close()
		}
	}()
	if err := n.permits(l, r); err != nil {
		return node.Answer{}, node.NotSent(err)
	}
	if r.Next > 0 && n.permits(l, node.Request{Op: node.Confirm}) != nil {
		r.Next = 0 // to give the name to a waiter is a promise
	}
	if l.Votes || r.Op == node.Release {
		return n.save(ctx, stripe, r, remembered{l, at}, l.Clock, false)
	}
	if close != nil {
		close() // others are asked without it
		close = nil
	}
	why, err := n.admission.Admit(ctx)
	if err == nil && why == (node.Absence{}) {
		err = errAdmitted
	}
	if err != nil {
		return node.Answer{}, node.NotSent(err)
	}
	return node.Answer{Status: node.Rejoining, Absence: why}, nil
}

// permits returns why this client must not have a request carried out on what was loaded, or nil. A
// release promises nothing.
func (n *Node) permits(l Loaded, r node.Request) error {
	if r.Op == node.Release {
		return nil
	}
	if l.Unfit != nil {
		return l.Unfit
	}
	if err := n.admission.Check(l.Terms); err != nil {
		return err
	}
	if err := n.admission.Serves(l.Server); err != nil {
		return err
	}
	if longest := l.Terms.MaxTTL; (r.Op == node.Acquire || r.Op == node.Extend) && longest > 0 && r.TTL > longest {
		return engine.Misconfiguredf("the group's longest lease is %v, and a longer one, of %v, was asked for", longest,
			r.TTL)
	}
	return nil
}

// save decides on a record at now, and writes what came out. With only, what is no grant is not
// written.
func (n *Node) save(ctx context.Context, stripe int, r node.Request, m remembered, now time.Duration,
	only bool) (node.Answer, error) {
	var failed error
	var reachable func(waiter string) bool
	if n.teller != nil {
		reachable = func(waiter string) (is bool) {
			if failed == nil {
				is, failed = n.teller.Reachable(ctx, m.Loaded, engine.ClientOf(waiter))
			}
			return is
		}
	}
	if r.TTL > 0 {
		r.TTL += n.config.Slack
	}
	d, err := m.decide(stripe, r, now, reachable)
	if d.answer.Status == node.Held && m.Closer != nil && !only {
		if m.Record, err = m.Closer(ctx); err == nil {
			d, err = m.decide(stripe, r, now, reachable)
		}
	}
	if err = errors.Join(err, failed); err != nil {
		return node.Answer{}, node.NotSent(err)
	}
	// A write that is still on its way fails once another one was carried out.
	d.write = d.write || r.Op == node.Release && n.recent.doubted(stripe)
	d.write = d.write || n.config.Behind && m.Votes
	if only && d.answer.Status != node.Granted || !d.write {
		return d.answer, nil
	}
	if err := d.after.fits(n.config.MaxRecord); err != nil {
		return node.Answer{}, node.NotSent(err)
	}
	over := m.Loaded
	over.Clock = now
	saved, err := n.store.Save(ctx, stripe, d.after, over)
	switch {
	case err == nil:
	case errors.Is(err, ErrConflict), errors.Is(err, ErrAgain):
		return node.Answer{}, node.NotSent(err)
	default:
		if !errors.Is(err, node.ErrNotSent) {
			n.recent.doubt(stripe)
		}
		return node.Answer{}, err
	}
	if !m.Votes {
		return d.answer, nil // whether anything was written is the adapter's business
	}
	saved.Fresh = nil
	if saved.Clock > 0 {
		m.at = n.now()
	} else {
		saved.Clock = m.Clock
	}
	n.recent.saved(stripe, remembered{saved, m.at})
	return d.answer, nil
}
