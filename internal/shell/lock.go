package shell

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Lock is one attempt, and what becomes of it. Once held, it has no goroutine and
// no timer of its own: a tick of the group's. It is safe for concurrent use. Its
// mutex is never held across a request.
type Lock struct {
	group  *group
	of     owner
	name   string
	terms  *Terms
	holder node.Holder
	values context.Context
	start  time.Duration
	given  bool // by the nodes, to its waiter
	waits  bool // its caller does

	acquiring, releasing fanout
	released             atomic.Bool // releasing is in use
	ended                atomic.Bool // it is not held any more: an extension that was not sent is of no use
	isDecided            atomic.Bool // nor is an acquire whose time is up
	ticking              tick
	peers                []peerState // said is guarded by mu

	mu         sync.Mutex // guards the rest
	attempt    Attempt
	own        core.Attempt // behind attempt
	decided    bool
	heard      core.Set      // nodes that have answered the acquire, however late
	left       core.Set      // and those that still may, or have not failed to
	heardAt    time.Duration // when a quorum of them had
	past       outcomeKind   // see outcome
	over       bool          // the owner was told of the end
	lost       Failure
	failure    Failure
	refusals   []core.Refusal
	extending  extensions // the round that is under way
	next       extensions // and the one after it
	inRound    bool
	told       time.Duration // the validity that the owner was told last
	cancelled  bool          // before it began
	isReleased bool          // it is being released
	isKept     bool          // by its leases, which stay
	keeps      bool          // the terms' AtLeast counts, from a time on
	keepsFrom  time.Duration
	shares     bool // others may share the name, from the next extension on
	adopts     bool // it was another process's before
	wasFreed   bool // the owner was told what came of that
	proposed   fence.Token
}

// owner is whose lock it is. The first five are called with the lock's mutex held:
// they return at once, and call nothing of the lock.
type owner interface {
	// held tells that the attempt has succeeded, with the token.
	held(token fence.Token, given bool)
	// extended tells what an extension has come to, and the validity that is left.
	extended(left time.Duration, why Failure)
	// ended tells why the lock is not held any more, and the validity that was left if it
	// is being released.
	ended(why Failure, left time.Duration)
	// freed tells what the release came to.
	freed(f Failure)
	// place is the waiter's that goes with a request.
	place(op core.Op) node.Place
	// refused tells what a node said at now to an acquire that was sent at asked: it has the name
	// leased to a holder.
	refused(node int, asked, now time.Duration, a node.Answer)
	// decided tells that the attempt has failed or succeeded.
	decided(l *Lock)
	// unanswered tells that no quorum has answered in time. The attempt goes on.
	unanswered(why *Failure)
	// enqueued tells that a node may have put the waiter into its queue.
	enqueued(node int)
}

// Extended waits for the end of an extension. It is called once, with the lock's
// mutex held: it returns at once, and calls nothing of the lock.
type Extended interface{ Extended(f Failure) }

// extensions are those who wait for one round. Mostly there is one of them.
type extensions struct {
	first Extended
	more  []Extended
}

func (e *extensions) add(x Extended) {
	if e.first == nil {
		e.first = x
	} else {
		e.more = append(e.more, x)
	}
}

// take moves those of another round here.
func (e *extensions) take(from *extensions) {
	if e.first == nil {
		*e = *from
	} else if from.first != nil {
		e.more = append(append(e.more, from.first), from.more...)
	}
	*from = extensions{}
}

// remove takes one out.
func (e *extensions) remove(x Extended) {
	switch {
	case e.first != x:
		e.more = slices.DeleteFunc(e.more, func(other Extended) bool { return other == x })
	case len(e.more) > 0:
		e.first, e.more = e.more[0], e.more[1:]
	default:
		e.first = nil
	}
}

// end tells all of them, once.
func (e *extensions) end(f Failure) {
	all := *e
	*e = extensions{}
	if all.first != nil {
		all.first.Extended(f)
	}
	for _, x := range all.more {
		x.Extended(f)
	}
}

// begin makes the attempt: to adopt a lock, if there is one to be adopted.
func (l *Lock) begin(g *group, of owner, name string, terms *Terms, from *Exported, values context.Context,
	start time.Duration) {
	l.init(g, of, name, terms, values, start)
	var id [node.IDLength]byte
	if from == nil {
		id = g.Env.ID()
	}
	wall := g.Env.WallMicros()
	l.holder = node.NewHolder(id, time.UnixMicro(wall), terms.Slots, terms.Label)
	l.mu.Lock()
	if from != nil {
		l.past = later // it has not waited for a turn, and takes none
	}
	if l.cancelled { // nothing was sent
		l.failure, l.decided = Failure{Reason: core.Cancelled}, true
		l.left = 0
		outcome := l.outcome(start)
		l.mu.Unlock()
		g.pacing.ended(outcome)
		l.of.decided(l)
		return
	}
	params := l.params(core.Proposal(wall, fence.Token(g.seen.Load())))
	var action core.Action
	if from == nil {
		l.attempt, action = g.Rules.Attempt(&l.own, values, l.holder, params)
	} else {
		l.holder, l.adopts = from.Holder, true
		l.keeps, l.keepsFrom = from.AtLeast > 0, start
		l.attempt, action = g.Rules.Adoption(&l.own, values, l.holder, params, from.Token, from.Mark)
	}
	l.mu.Unlock()
	l.send(action, start)
}

// take begins the tenure of a lock that was given to the holder's waiter, with a number. It is
// held.
func (l *Lock) take(g *group, of owner, name string, terms *Terms, holder node.Holder, number fence.Token,
	until time.Duration, values context.Context, start time.Duration) {
	l.init(g, of, name, terms, values, start)
	l.holder, l.given, l.past = holder, true, later
	// Its first extension is due in a moment, and is not needed if the lock is held for less.
	l.ticking.early = min(l.ticking.early, rule.ReservationTTL/100)
	l.mu.Lock()
	l.attempt = g.Rules.Given(&l.own, values, holder, l.params(0), number, until)
	l.settle(start)
	l.mu.Unlock()
	l.of.decided(l)
}

func (l *Lock) init(g *group, of owner, name string, terms *Terms, values context.Context, start time.Duration) {
	l.group, l.of, l.name, l.terms, l.values, l.start = g, of, name, terms, values, start
	l.ticking.of, l.ticking.early = l, terms.TTL/100
	l.peers = make([]peerState, len(g.Peers))
	l.left = core.Set(1)<<len(g.Peers) - 1
}

// boundTTL is longer than any process lives: a lease that is bound to one is believed in for as
// long.
const boundTTL = 100 * 365 * 24 * time.Hour

// params are those of an attempt.
func (l *Lock) params(proposal fence.Token) core.Params {
	ttl, every := l.terms.TTL, time.Duration(0)
	if l.group.Bound {
		ttl, every = boundTTL, ttl
	}
	return core.Params{
		Nodes:    len(l.group.Peers),
		TTL:      ttl,
		Every:    every,
		MaxHold:  max(l.terms.MaxHold, 0),
		Start:    l.start,
		Proposal: proposal,
		Ordered:  l.group.ordered,
		Shared:   l.terms.Shared,
		Waits:    l.waits,
	}
}

// Token returns the fencing token of a lock that is, or was, held.
func (l *Lock) Token() fence.Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempt.Token()
}

// Remaining returns the validity left, 0 if the lock is not held any more.
func (l *Lock) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.group.Env.Now()
	l.attempt.Tick(now)
	l.settle(now)
	if l.attempt.Phase() != core.Holding {
		return 0
	}
	return l.attempt.Until() - now
}

// cancel gives up an attempt that is not decided.
func (l *Lock) cancel() { l.stop(true) }

// hurry gives it up if it waits for late answers only, and the nodes are not known to be behind.
func (l *Lock) hurry() { l.stop(false) }

func (l *Lock) stop(cancelled bool) {
	l.mu.Lock()
	var action core.Action
	switch {
	case l.attempt == nil:
		l.cancelled = l.cancelled || cancelled
		l.mu.Unlock()
		return
	case cancelled:
		action = l.attempt.Cancel()
	case !l.group.pacing.behind.Load():
		action = l.attempt.Hurry()
	}
	now := l.group.Env.Now()
	decided := l.settle(now)
	outcome := l.outcome(now)
	l.mu.Unlock()
	l.group.pacing.ended(outcome)
	l.send(action, now)
	if decided {
		l.of.decided(l)
	}
}

// Extend has the validity renewed, and x told. A round that is under way proves
// nothing about what has happened since it began: those who come during one share
// the next.
func (l *Lock) Extend(x Extended) { l.Raise(0, x) }

// Raise is Extend, and has later acquisitions get a token that is larger than that number. That is
// on this group, of which the lock's own token is.
func (l *Lock) Raise(to fence.Token, x Extended) {
	l.mu.Lock()
	l.attempt.Want(to)
	now := l.group.Env.Now()
	follows := l.inRound || l.next.first != nil
	l.next.add(x)
	var action core.Action
	if !follows {
		action = l.startExtend(now)
	}
	l.mu.Unlock()
	l.send(action, now)
}

// Withdraw is for a caller that does not wait any more: no round is begun for x.
func (l *Lock) Withdraw(x Extended) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next.remove(x)
}

// startExtend begins a round, with the mutex held, and gives up one that is under
// way. If the lock is not held any more, those who wait for the round hear that.
func (l *Lock) startExtend(now time.Duration) core.Action {
	l.extending.take(&l.next)
	l.inRound = true
	action := l.attempt.StartExtend(now)
	l.settle(now)
	return action
}

// renew extends because it is time, with the mutex held. Callers that wait for an extension get one
// of their own.
func (l *Lock) renew(now time.Duration) core.Action {
	if l.next.first != nil || l.inRound && l.extending.first != nil {
		return l.startExtend(now)
	}
	action := l.attempt.Renew(now)
	_, state := l.attempt.Extension()
	l.inRound = l.inRound || action.To != 0 && state == core.Pending
	return action
}

// Release gives the lock back or, with keep, leaves it for as long as its terms say; the owner is
// told what comes of it. It reports why the lock was not held any more, and whether it was
// released, or exported, before: then it does nothing.
func (l *Lock) Release(keep bool) (lost Failure, before bool) {
	l.mu.Lock()
	if l.isReleased {
		l.mu.Unlock()
		return Failure{}, true
	}
	now := l.group.Env.Now()
	l.attempt.Tick(now)
	if lost = l.end(); lost.Reason == core.Exported {
		l.mu.Unlock()
		return lost, true
	}
	l.isReleased = true
	var action core.Action
	if l.isKept = keep && l.keepLeft(now) > 0; l.isKept {
		action = l.attempt.StartKeep(now)
	} else {
		action = l.attempt.StartRelease(now)
	}
	l.settle(now)
	l.mu.Unlock()
	l.send(action, now)
	return lost, false
}

// Begun returns when the attempt began.
func (l *Lock) Begun() time.Duration { return l.start }

// Given reports whether the nodes gave the lock to its waiter: for a moment, until it is extended.
func (l *Lock) Given() bool { return l.given }

// Keep has the leases stay for as long as the terms say, whatever becomes of the holder, counted
// from a time on. Before it, no client is to be kept from the name by what may be of no use. What
// is longer than the leases begins with the next extension.
func (l *Lock) Keep(from time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keeps, l.keepsFrom = true, from
}

// keepLeft returns for how long the leases are to stay, with the mutex held.
func (l *Lock) keepLeft(now time.Duration) time.Duration {
	if !l.keeps {
		return 0
	}
	return l.keepsFrom + l.terms.AtLeast - now
}

// Share lets others share the name who want to, from the next extension on.
func (l *Lock) Share() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shares = true
	l.attempt.Share()
}

// Shared reports whether others may share the name.
func (l *Lock) Shared() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shares || l.terms.Shared
}

// extendWith returns the token that goes with an extend, and for how long that leases the name.
// That is at least to what the terms say, and to exactly that once the holder has let go.
func (l *Lock) extendWith(now time.Duration) (own fence.Token, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.keepLeft(now)
	if l.isReleased {
		return l.attempt.Token(), max(left, time.Millisecond)
	}
	return l.attempt.Token(), max(left, l.terms.TTL)
}

// proposal is what a release proposes for the first in the queue. Nothing is given, and it is 0, if
// the lock was not held to its end, and if its leases are to stay. It is also 0 if no lease of this
// group may be as long as what is given. All nodes are proposed the same.
func (l *Lock) proposal() fence.Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proposed == 0 && !l.isKept && l.attempt.Reason() == core.LetGo && l.terms.TTL >= rule.ReservationTTL {
		l.proposed = core.Proposal(l.group.Env.WallMicros(), fence.Token(l.group.seen.Load()))
	}
	return l.proposed
}

// send carries out an action.
func (l *Lock) send(action core.Action, now time.Duration) {
	if action.Op == core.None || action.To == 0 {
		return
	}
	g := l.group
	var f *fanout
	switch {
	case action.Op == core.Acquire: // there is one
		f = &l.acquiring
		f.calls = calls{states: l.peers}
	case action.Op == core.Release && l.released.CompareAndSwap(false, true):
		f = &l.releasing
		f.calls = calls{states: l.peers, which: 1}
	default:
		f = &fanout{calls: calls{own: make([]call, len(l.peers))}}
	}
	f.group, f.of, f.action = g, l, action
	f.request = node.Request{Op: node.Op(action.Op), Name: l.name, Holder: l.holder, TTL: l.terms.TTL, Token: action.Token,
		Place: l.of.place(action.Op)}
	switch action.Op {
	case core.Acquire:
		f.request.Shared = l.terms.Shared
		if l.waits {
			f.patience, f.useless = g.pacing.patience(l.terms.TTL), &l.isDecided
		}
	case core.Confirm:
		if l.waits {
			f.timeout = g.pacing.timeout(l.terms.TTL)
		}
	case core.Release:
		f.request.Next = l.proposal()
		// It is sent, however late: the lease would keep others away for a TTL.
		if f.patience = g.pacing.patience(l.terms.TTL); g.pacing.behind.Load() {
			f.timeout = max(f.patience, g.NodeTimeout) // the TTL of a bound lease may be shorter
		}
	case core.Extend:
		f.request.OwnToken, f.request.TTL = l.extendWith(now)
		f.request.Shared = action.Shared
		f.request.Token = max(action.Token, action.Floor)
		if !l.ended.Load() {
			f.patience, f.useless = core.Patience(l.terms.TTL), &l.ended
		}
	}
	f.send(l.values, now)
}
