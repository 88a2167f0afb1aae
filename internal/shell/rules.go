package shell

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// Rules are what the shell asks of the algorithm. One implementation ships: Shipped,
// which is internal/core as it is. A test that breaks the algorithm, to see that a
// checker notices, embeds it and answers one of the questions wrongly.
type Rules interface {
	// Attempt begins a holder's attempt, for a caller with these values.
	Attempt(own *core.Attempt, values context.Context, holder node.Holder, p core.Params) (Attempt, core.Action)
	// Adoption begins that of a lock which another process has exported.
	Adoption(own *core.Attempt, values context.Context, holder node.Holder, p core.Params, token,
		mark fence.Token) (Attempt, core.Action)
	// Given begins that of a lock which was given to the holder's waiter.
	Given(own *core.Attempt, values context.Context, holder node.Holder, p core.Params, number fence.Token,
		until time.Duration) Attempt
	// Retry says when the waiter tries again whose own it is given.
	Retry(own *core.Retry) Retry
	// NodeTime estimates the time by which waiters stand in order.
	NodeTime(own *core.NodeTime) NodeTime
	// Timeout bounds a request.
	Timeout(op core.Op, nodeTimeout time.Duration) time.Duration
}

// Attempt is a *core.Attempt, which has the comments.
type Attempt interface {
	Phase() core.Phase
	Reason() core.Reason
	Token() fence.Token
	Until() time.Duration
	OnAcquire(node int, r core.Reply, now time.Duration) core.Action
	OnLateAcquire(node int, r core.Reply, now time.Duration) core.Action
	OnConfirm(node int, asked fence.Token, r core.Reply, now time.Duration) core.Action
	OnExtend(node int, round uint32, asked fence.Token, r core.Reply, now time.Duration) core.Action
	OnRelease(node int, r core.Reply)
	Tick(now time.Duration)
	Cancel() core.Action
	Hurry() core.Action
	ExtendDue() (due time.Duration, ok bool)
	Want(mark fence.Token)
	OfferExport() (mark fence.Token)
	Export(mark fence.Token, now time.Duration) bool
	StartExtend(now time.Duration) core.Action
	Renew(now time.Duration) core.Action
	Share()
	Extension() (round uint32, state core.RoundState)
	Counts(node int) bool
	Accepts(r core.Reply) bool
	Settled(node int) bool
	StartRelease(now time.Duration) core.Action
	StartKeep(now time.Duration) core.Action
	ReleaseOutcome() (done, clean bool)
}

// Retry is a *core.Retry.
type Retry interface {
	Begin()
	Notified(node int, now time.Duration)
	Missed(now time.Duration)
	Refused(now time.Duration, said []core.Refusal, polls bool, random float64)
	Due() time.Duration
	Invited() bool
	News() bool
}

// NodeTime is a *core.NodeTime.
type NodeTime interface {
	Observe(node int, sent, received, clock time.Duration)
	At(now time.Duration) (time.Duration, bool)
}

// Shipped are the rules as they are.
type Shipped struct{}

// Attempt implements Rules.
func (Shipped) Attempt(own *core.Attempt, _ context.Context, _ node.Holder, p core.Params) (Attempt, core.Action) {
	var action core.Action
	*own, action = core.NewAttempt(p)
	return own, action
}

// Adoption implements Rules.
func (Shipped) Adoption(own *core.Attempt, _ context.Context, _ node.Holder, p core.Params, token,
	mark fence.Token) (Attempt, core.Action) {
	var action core.Action
	*own, action = core.NewAdoption(p, token, mark)
	return own, action
}

// Given implements Rules.
func (Shipped) Given(own *core.Attempt, _ context.Context, _ node.Holder, p core.Params, number fence.Token,
	until time.Duration) Attempt {
	*own = core.NewGiven(p, number, until)
	return own
}

// Retry implements Rules.
func (Shipped) Retry(own *core.Retry) Retry { return own }

// NodeTime implements Rules.
func (Shipped) NodeTime(own *core.NodeTime) NodeTime { return own }

// Timeout implements Rules.
func (Shipped) Timeout(_ core.Op, nodeTimeout time.Duration) time.Duration { return nodeTimeout }
