package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// fanout is one action under way: the same request to some nodes, sent together,
// each bounded by the node timeout. No caller's context is involved: an answer that
// comes after the caller has gone may be a grant to be released.
type fanout struct {
	group   *group
	of      answerer
	action  core.Action
	request node.Request
	sent    time.Duration
	stamp   time.Duration // the same by the stopwatch, if it is wanted
	timeout time.Duration // 0 before it is sent: the node timeout
	// patience is for how long an answer is of use, if that is longer than it is waited for.
	patience time.Duration
	useless  *atomic.Bool // an answer is of no use by now; nil: it always is of use
	left     atomic.Int32 // calls that are not over; the last one ends the fanout
	calls    calls
	limit    deadline
}

// answerer takes the answers of a fanout, one for each node, in any order and from
// any goroutine. An error stands for an unknown answer.
type answerer interface {
	answered(f *fanout, node int, a node.Answer, err error)
	// late takes what comes after the time of a call was up, which was answered with
	// an error then.
	late(f *fanout, node int, a node.Answer, err error)
	// silent tells that the time of an acquire is up, and reports whether answers that come later
	// are waited for.
	silent() bool
}

// call is one request of a fanout. It implements node.Call.
type call struct {
	fanout *fanout
	node   int
	over   atomic.Bool // it was answered, or its time is up
	heard  atomic.Bool // it was answered, however late, or no answer is waited for any more
}

// calls are those of a fanout, by node: in the peer states of a lock, or its own.
type calls struct {
	states []peerState
	which  int
	own    []call
}

// peerState is what a lock keeps of a node: what it said last, and the calls of the
// acquire and of the release. Nearly all locks have no others.
type peerState struct {
	said  said
	calls [2]call
}

// said is the last thing that a node said, for the errors.
type said struct {
	op     core.Op
	round  uint32 // of an extend
	answer node.Answer
	err    error
}

func (c *calls) of(node int) *call {
	if c.own != nil {
		return &c.own[node]
	}
	return &c.states[node].calls[c.which]
}

// send sends the requests. The fields above left are set.
func (f *fanout) send(values context.Context, now time.Duration) {
	g := f.group
	f.sent = now
	if g.Answered != nil {
		f.stamp = g.Stopwatch()
	}
	f.timeout = g.Rules.Timeout(f.action.Op, cmp.Or(f.timeout, g.NodeTimeout))
	f.left.Store(int32(f.action.To.Len()))
	g.inflight.add(1)
	for i := range g.Peers {
		if f.action.To.Has(i) {
			c := f.calls.of(i)
			c.fanout, c.node = f, i
		}
	}
	g.deadlines.add(&f.limit, f, now, now+f.timeout)
	for i, p := range g.Peers {
		if f.action.To.Has(i) {
			p.Start(values, f.request, max(f.timeout, f.patience), f.calls.of(i))
		}
	}
}

// Wanted implements node.Call.
func (c *call) Wanted() bool {
	f := c.fanout
	if !c.over.Load() {
		return true
	}
	return f.patience > f.timeout && (f.useless == nil || !f.useless.Load()) && !f.group.inflight.isClosed() &&
		f.group.Env.Now() < f.sent+f.patience
}

// Done implements node.Call.
func (c *call) Done(a node.Answer, err error) {
	f := c.fanout
	g := f.group
	if err == nil {
		g.pacing.answer(c.node, f.sent)
	}
	if !c.over.CompareAndSwap(false, true) { // it comes too late
		c.heard.Store(true)
		g.health.late(c.node, err, g.Env.Now()-f.sent, f.timeout)
		f.of.late(f, c.node, a, err)
		return
	}
	if err == nil && a.Register > node.MaxRegister {
		a, err = node.Answer{}, fmt.Errorf(
			"%w: it answers %s with the number %d, which fenlock has not made: its register or the lease was changed by hand",
			node.ErrMisconfigured, f.action.Op, a.Register)
	}
	if err != errTimeUp {
		c.heard.Store(true)
	}
	ours := errors.Is(err, context.Canceled)
	if ours || errors.Is(err, context.DeadlineExceeded) {
		// It is the request's own context that ended. The error must not match
		// the caller's, which is how a caller tells that it gave up itself.
		silence := f.silence(c.node)
		if err != errTimeUp && f.action.Op != core.Extend {
			err = gaveUp{silence} // the node's last word
		} else {
			err = silence
		}
		// This process was paused: answers may be waiting.
		ours = ours || g.Env.Now()-f.sent > 2*f.timeout
	}
	if g.Answered != nil {
		g.Answered(c.node, f.request.Op, a, err, g.Stopwatch()-f.stamp)
	}
	if !ours {
		g.health.answered(c.node, &f.request, &a, err)
	}
	if err == nil {
		g.strays.works(c.node, f.sent)
	}
	f.of.answered(f, c.node, a, err)
	if f.left.Add(-1) == 0 {
		f.group.deadlines.remove(&f.limit)
		f.group.inflight.add(-1)
	}
}

// noAnswer is the error of a node that has not answered in so much time. It matches no other, least
// of all that of a context.
type noAnswer struct {
	within time.Duration
	why    string // "" if that is not known
}

func (e noAnswer) Error() string {
	if e.why == "" {
		return fmt.Sprintf("no answer within %v", e.within)
	}
	return fmt.Sprintf("no answer within %v: %s", e.within, e.why)
}

// gaveUp is the same of a request that is not answered any more.
type gaveUp struct{ noAnswer }

// silence returns the error of a node whose time is up.
func (f *fanout) silence(node int) noAnswer {
	e := noAnswer{within: f.timeout}
	if ails := f.group.Ails; ails != nil {
		if why := ails(node); why != nil {
			e.why = why.Error()
		}
	}
	return e
}

// errTimeUp is the answer of a node whose time is up. It may answer later.
var errTimeUp = fmt.Errorf("its time is up: %w", context.DeadlineExceeded)

// expire ends the calls that have not been answered in time. An acquire may be carried out later,
// which its answer says if it comes.
func (f *fanout) expire() {
	g := f.group
	var silent core.Set
	for i := range g.Peers {
		if f.action.To.Has(i) && !f.calls.of(i).over.Load() {
			silent = silent.With(i)
			f.calls.of(i).Done(node.Answer{}, errTimeUp)
		}
	}
	if f.action.Op != core.Acquire || silent == 0 || !f.of.silent() {
		return
	}
	u := &unheard{fanout: f, nodes: silent}
	g.unheard.add(&u.limit, u, g.Env.Now(), f.sent+cmp.Or(f.patience, g.pacing.patience(f.request.TTL)))
	if g.inflight.isClosed() { // perhaps since it is there
		g.unheard.expireAll()
	}
}

// unheard are the nodes that have not answered an acquire in time, and may have it still.
type unheard struct {
	fanout *fanout
	nodes  core.Set
	limit  deadline
}

// expire tells that no answer is waited for any more.
func (u *unheard) expire() {
	for i := range u.fanout.group.Peers {
		if u.nodes.Has(i) && u.fanout.calls.of(i).heard.CompareAndSwap(false, true) {
			u.fanout.of.late(u.fanout, i, node.Answer{}, context.DeadlineExceeded)
		}
	}
}
