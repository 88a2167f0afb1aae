package core

import (
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Phase is where an Attempt stands.
type Phase uint8

const (
	Acquiring  Phase = iota // the leases are being asked for
	Confirming              // the leases are there, the token is being agreed on
	Holding                 // the lock is held
	Over                    // it is not, and never will be; Reason says why
	Adopting                // another process has held it, and this one asks whether it may go on: see NewAdoption
)

// Reason is why an Attempt is over.
type Reason uint8

const (
	NotOver     Reason = iota
	Contended          // a majority answered, and others hold too many of the leases
	NoQuorum           // too few nodes answered
	TooLate            // a majority granted, but the validity was used up by then
	Cancelled          // the caller gave up
	Expired            // held, then the validity ran out
	Taken              // held, then a majority refused to extend: the leases are gone
	HeldTooLong        // held up to the maximum hold
	LetGo              // held and released
	Exported           // held, and now another process's: see Export
)

// Params are what an Attempt is made with. All times are on one monotonic
// clock of the client, preferably one that goes on while the machine sleeps.
type Params struct {
	Nodes   int           // N, from 1 to MaxNodes
	TTL     time.Duration // of every lease
	Every   time.Duration // extensions keep pace as if leases were this long; 0: as long as they are
	MaxHold time.Duration // longest tenure, counted from Start; 0 is unbounded
	Start   time.Duration // read before the first request is sent
	// Proposal is the number to propose, see the function of that name.
	Proposal fence.Token
	// Ordered are the nodes that carry out requests about one name in the order in
	// which they were sent, as long as the connection lasts.
	Ordered Set
	Shared  bool // others may share the name, from the beginning: see Share
	Waits   bool // the caller waits: for nodes that answer late, too
}

func (p *Params) every() time.Duration {
	if p.Every > 0 {
		return p.Every
	}
	return p.TTL
}

// Attempt is one holder's life on a quorum group. Feed it every reply exactly
// once, in the order in which they arrive, and carry out each Action returned.
// It is a plain value: copying it copies the state. Not safe for concurrent use.
type Attempt struct {
	params Params
	phase  Phase
	reason Reason

	// token is the number being confirmed, and then the token of the lock.
	token fence.Token
	until time.Duration // end of the validity while Holding
	due   time.Duration // when the next extension should start
	// pace is what was given, until that is extended: the TTL may be far longer. See every.
	pace time.Duration

	granted [MaxNodes]fence.Token // what each node granted, 0 for nothing
	acquire ballot
	// leaseless are the nodes that answered the acquire with a refusal. No lease of this holder is
	// there and none can come from a late acquire.
	leaseless Set
	// unsent are those of them that were not even asked.
	unsent Set
	// silent are the nodes that have not answered the acquire in time, and still may. late are those
	// that have since.
	silent, late Set
	// freeing are the nodes that were sent a release, and have it to answer.
	freeing Set

	// mark is the largest origin of a lease that counts for an extension: the
	// token, or what the holder has raised it to since. See OnExtend.
	mark fence.Token
	// wanted is what the mark has to be for an extension to be carried: see Want.
	wanted fence.Token

	// The round that is under way: confirm, extend or release.
	round      uint32
	roundStart time.Duration
	votes      ballot
	highest    fence.Token // largest register that a confirm was refused with; largest origin past the mark
	extended   bool        // the current extension was carried
	waiting    Set         // the nodes that have not answered the latest extend, and whose time is not up
	rounds     rounds      // and the rounds before

	// floor is what the mark is to be raised to. If it is not past the mark, no raise is under way.
	floor     fence.Token
	raiseFrom uint32        // the round that was under way when that began
	raiseEnd  time.Duration // when it is given up
	raised    Set           // the nodes that have agreed to it
	unagreed  Set           // those that were asked, and have not answered

	// spent is a number that makes leases count for nothing to a process that adopts the lock again
	// by the same text. It is one past the mark in that text, 0 if the lock was not adopted.
	// spentAt are the nodes that are known to have it.
	spent   fence.Token
	spentAt Set

	// abandoned says that leases that turn up late are to be released, releasing that
	// the holder has asked for it.
	abandoned, releasing bool
	// keeping says that the holder has let go, and the leases are to stay: see StartKeep.
	keeping bool
}

// ballot sorts the answers of one round.
type ballot struct{ yes, no, unknown Set }

func (b ballot) answered() Set { return b.yes | b.no | b.unknown }

// NewAttempt starts an acquisition: the Action asks all nodes for the lease.
func NewAttempt(p Params) (Attempt, Action) {
	a := Attempt{params: p}
	a.rounds.shares = p.Shared
	return a, Action{Op: Acquire, To: allOf(p.Nodes), Token: p.Proposal}
}

// Phase returns where the attempt stands.
func (a *Attempt) Phase() Phase { return a.phase }

// Reason returns why the attempt is Over, NotOver before.
func (a *Attempt) Reason() Reason { return a.reason }

// Token returns the token of a lock that is, or was, held. In the other phases it is a number that
// the holder may not use.
func (a *Attempt) Token() fence.Token { return a.token }

// Until returns the end of the validity. It means something once Holding.
func (a *Attempt) Until() time.Duration { return a.until }

// WasHeld reports whether the attempt ever got as far as Holding.
func (a *Attempt) WasHeld() bool {
	return a.phase == Holding || a.reason >= Expired
}

func (a *Attempt) quorum() int { return Quorum(a.params.Nodes) }

func (a *Attempt) hopeless(b ballot) bool {
	return a.params.Nodes-(b.no|b.unknown).Len() < a.quorum()
}

// OnAcquire takes a node's answer to the acquire.
func (a *Attempt) OnAcquire(node int, r Reply, now time.Duration) Action {
	if r.Silent && a.acquire.answered().Has(node) {
		return Action{} // its answer has come meanwhile: see OnLateAcquire
	}
	switch r.Status {
	case Granted:
		a.acquire.yes = a.acquire.yes.With(node)
		a.granted[node] = r.Register
	case Held:
		a.acquire.no = a.acquire.no.With(node)
	default:
		a.acquire.unknown = a.acquire.unknown.With(node)
	}
	a.without(node, r)
	if r.Silent {
		a.silent = a.silent.With(node)
	}
	switch a.phase {
	case Acquiring:
		return a.decideAcquire(r.Register, now)
	case Confirming:
		a.highest = max(a.highest, a.granted[node])
	case Over:
		if a.leaseless.Has(node) && a.round == 0 { // no extend has made one since
			a.votes.yes = a.votes.yes.With(node) // there is nothing to release
		}
		return a.releaseLate(node, r)
	}
	return Action{}
}

// without notes that a node has no lease by the acquire and never will, if r says so.
func (a *Attempt) without(node int, r Reply) {
	switch {
	case r.Status == Unknown && r.Unsent:
		a.unsent = a.unsent.With(node)
		fallthrough
	case r.Status == Held, r.Status == Rejoining:
		a.leaseless = a.leaseless.With(node)
	}
}

// OnLateAcquire takes an answer to an acquire that was taken for unknown before, since
// its time was up. It counts while the attempt is undecided. Later it tells whether a lease may be
// there. Unknown says that no answer can come any more. The answer may overtake the word that the
// time is up: then it is the node's answer, and that word says nothing.
func (a *Attempt) OnLateAcquire(node int, r Reply, now time.Duration) Action {
	if !a.acquire.answered().Has(node) {
		return a.OnAcquire(node, r, now)
	}
	a.without(node, r)
	first := a.silent.Has(node)
	a.silent = a.silent.Without(node)
	if r.Status != Unknown {
		a.late = a.late.With(node)
	}
	switch {
	case a.phase == Over && r.Status == Granted:
		return a.releaseLate(node, r)
	case a.phase == Acquiring && first:
		a.acquire.unknown = a.acquire.unknown.Without(node)
		return a.OnAcquire(node, r, now)
	}
	return Action{}
}

func (a *Attempt) decideAcquire(latest fence.Token, now time.Duration) Action {
	if now >= Validity(a.params.Start, a.params.TTL) {
		return a.fail(a.lateReason(a.acquire))
	}
	same, largest := 0, fence.Token(0)
	for node := range a.params.Nodes {
		if !a.acquire.yes.Has(node) {
			continue
		}
		largest = max(largest, a.granted[node])
		if a.granted[node] == latest {
			same++
		}
	}
	switch {
	case same >= a.quorum():
		a.hold(latest)
	case a.acquire.yes.Len() >= a.quorum():
		// Waiting for the others could save this round trip, or cost a node
		// timeout. It is taken only where registers differ.
		return a.confirm(largest)
	case a.hopeless(a.acquire):
		return a.failOnceCertain(a.acquire)
	}
	return Action{}
}

// confirm asks every node that may have the lease to take the number as its
// register. Answers to an earlier number count for nothing (README.md, "A round of
// acquisition").
func (a *Attempt) confirm(token fence.Token) Action {
	a.phase = Confirming
	a.token, a.highest = token, token
	a.votes = ballot{no: a.acquire.no, unknown: a.acquire.unknown & a.leaseless}
	return Action{Op: Confirm, To: allOf(a.params.Nodes) &^ a.leaseless, Token: token}
}

// OnConfirm takes a node's answer to a confirm of the number asked.
func (a *Attempt) OnConfirm(node int, asked fence.Token, r Reply, now time.Duration) Action {
	if asked != a.token || a.phase != Confirming {
		return Action{}
	}
	switch r.Status {
	case Granted:
		a.votes.yes = a.votes.yes.With(node)
	case Outrun:
		a.votes.no = a.votes.no.With(node)
		a.highest = max(a.highest, r.Register)
	case Lost:
		a.votes.no = a.votes.no.With(node)
	default:
		a.votes.unknown = a.votes.unknown.With(node)
	}
	switch {
	case now >= Validity(a.params.Start, a.params.TTL):
		return a.fail(a.lateReason(a.votes))
	case a.votes.yes.Len() >= a.quorum():
		a.hold(a.token)
	case a.hopeless(a.votes) && a.highest > a.token:
		return a.confirm(a.highest)
	case a.hopeless(a.votes):
		return a.failOnceCertain(a.votes)
	}
	return Action{}
}

// hold begins the tenure. The validity was checked by the caller.
func (a *Attempt) hold(token fence.Token) {
	a.phase, a.token, a.mark = Holding, token, token
	a.votes = ballot{}
	a.until = a.params.Start // not 0, which may be far ahead: the epoch is any
	a.setUntil(Validity(a.params.Start, a.params.TTL))
	a.due = a.params.Start + a.every()/3
}

func (a *Attempt) setUntil(t time.Duration) {
	if limit, bounded := a.limit(); bounded && t > limit {
		t = limit
	}
	a.until = max(a.until, t)
}

func (a *Attempt) limit() (limit time.Duration, bounded bool) {
	limit = a.params.Start + a.params.MaxHold
	return limit, limit > a.params.Start // not so if it is 0, or beyond the end of time
}

// fail ends an attempt that never held, and releases what it may have. A node
// that has not answered yet is released when it does, if it has granted: most
// are about to refuse like the others.
func (a *Attempt) fail(why Reason) Action {
	a.phase, a.reason, a.abandoned = Over, why, true
	to := allOf(a.params.Nodes) &^ a.leaseless
	if why != Cancelled {
		to &= a.acquire.answered()
	}
	a.freeing = to
	return Action{Op: Release, To: to}
}

// failOnceCertain ends an attempt that cannot succeed any more as soon as the
// answers tell why. A refusal that follows a dead node's would be reported as an
// outage otherwise, while the next answer says that the lock is held.
func (a *Attempt) failOnceCertain(b ballot) Action {
	answered := (b.yes | b.no).Len()
	if answered < a.quorum() && a.params.Nodes-b.unknown.Len() >= a.quorum() {
		return Action{}
	}
	if a.params.Waits && a.phase == Acquiring && answered < a.quorum() && (b.yes|b.no|a.silent).Len() >= a.quorum() {
		return Action{} // they may be behind: to ask anew would put them further behind
	}
	return a.fail(outvoted(b, a.quorum()))
}

// outvoted tells "another client has it" from "the nodes are down": the first needs a majority of
// trustworthy answers.
func outvoted(b ballot, quorum int) Reason {
	if (b.yes | b.no).Len() >= quorum {
		return Contended
	}
	return NoQuorum
}

func (a *Attempt) lateReason(b ballot) Reason {
	if b.yes.Len() >= a.quorum() {
		return TooLate
	}
	return outvoted(b, a.quorum())
}

// Cancel gives up an acquisition, or an adoption. It changes nothing once Holding or Over.
func (a *Attempt) Cancel() Action {
	if a.phase == Adopting {
		return a.notAdopted(Cancelled)
	}
	if a.phase != Acquiring && a.phase != Confirming {
		return Action{}
	}
	return a.fail(Cancelled)
}

// Hurry ends an attempt that waits for late answers only: there is news, so that to ask again may
// be better.
func (a *Attempt) Hurry() Action {
	if a.phase != Acquiring || !a.hopeless(a.acquire) {
		return Action{}
	}
	a.params.Waits = false
	return a.failOnceCertain(a.acquire)
}

// Tick tells the attempt the time. It ends a tenure whose validity has run out.
func (a *Attempt) Tick(now time.Duration) {
	if a.phase != Holding || now < a.until {
		return
	}
	a.phase, a.reason = Over, Expired
	if limit, bounded := a.limit(); bounded && a.until >= limit {
		a.reason = HeldTooLong
	}
}

// StartRelease ends the tenure and asks the nodes to drop the lease. After a loss it still does the
// latter. It does nothing if the lock was never held or was released or exported before. A node
// that has not answered the acquire or the latest extend yet is released when it does, unless it
// keeps requests in order. A release could overtake the request. That would take the name from the
// waiter that was notified, and the release would have to be sent again.
func (a *Attempt) StartRelease(now time.Duration) Action {
	a.Tick(now)
	if !a.WasHeld() || a.releasing || a.keeping || a.reason == Exported {
		return Action{}
	}
	if a.phase == Holding {
		a.phase, a.reason = Over, LetGo
	}
	return a.release()
}

// release asks the nodes to drop the lease of a tenure that has ended.
func (a *Attempt) release() Action {
	a.abandoned, a.releasing = true, true
	a.votes = ballot{}
	to := allOf(a.params.Nodes)
	if a.round == 0 {
		to &= a.acquire.answered() | a.params.Ordered
		to &^= a.unsent
		a.votes.yes = a.unsent // there is nothing to release
	} else {
		to &^= a.waiting &^ a.params.Ordered
	}
	a.freeing = to
	return Action{Op: Release, To: to}
}

// StartKeep ends the tenure as StartRelease does, but leaves the leases where they are. It asks for
// them once more, for as long as the request says. No client holds the lock by them or extends them
// again, so that to the nodes this is an extension which came late. If the answers tell that the
// lock was lost before, it is released as after a loss: Reason is Taken then. After a loss it asks
// for nothing: a later holder of the name is not to be disturbed.
func (a *Attempt) StartKeep(now time.Duration) Action {
	a.Tick(now)
	if !a.WasHeld() || a.releasing || a.keeping || a.reason == Exported {
		return Action{}
	}
	a.keeping = true
	if a.phase != Holding {
		a.votes = ballot{yes: allOf(a.params.Nodes)}
		return Action{}
	}
	action := a.StartExtend(now)
	a.phase, a.reason = Over, LetGo
	return action
}

// OnRelease takes a node's answer to a release.
func (a *Attempt) OnRelease(node int, r Reply) {
	if !r.Silent {
		a.freeing = a.freeing.Without(node)
	}
	if a.WasHeld() && !a.releasing {
		return // it was taken, and no caller waits for that
	}
	switch r.Status {
	case Granted, Lost: // either way, no lease of this holder is there
		a.votes.yes = a.votes.yes.With(node)
	default:
		a.votes.unknown = a.votes.unknown.With(node)
	}
}

// Settled reports whether the node has answered what could make a lease there: the acquire, and the
// latest extend; where requests may overtake each other, every extend. No lease turns up later,
// then.
func (a *Attempt) Settled(node int) bool {
	if a.round > 0 {
		return !a.waiting.Has(node) && (a.params.Ordered.Has(node) || a.rounds.unheard[node] == 0)
	}
	return (a.acquire.yes | a.acquire.no | a.late).Has(node)
}

// ReleaseOutcome reports whether the release has been answered well enough to stop waiting, and
// whether a majority is known to be free of the lease; or, after StartKeep, to have it. A majority
// that is free of an adopted lease has to have the number, too, that keeps the lock from being
// adopted again: see NewAdoption.
func (a *Attempt) ReleaseOutcome() (done, clean bool) {
	yes := a.votes.yes
	if a.releasing && a.spent > 0 {
		yes &= a.spentAt
	}
	clean = yes.Len() >= a.quorum()
	return clean || a.votes.answered() == allOf(a.params.Nodes), clean
}

// releaseLate answers a lease that turned up, or may have, after the attempt was given up. The
// release that was sent then can have overtaken it. A release that is still under way to a node
// that keeps requests in order has not.
func (a *Attempt) releaseLate(node int, r Reply) Action {
	switch {
	case (a.params.Ordered & a.freeing).Has(node) && (r.Status == Granted || r.Silent || !a.WasHeld()):
		return Action{} // it is asked already
	case !a.WasHeld():
		a.freeing = a.freeing.With(node)
	}
	if a.abandoned && (r.Status == Granted || r.Status == Unknown) {
		return Action{Op: Release, To: Set(0).With(node)}
	}
	return Action{}
}
