package zknode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// Do implements node.Node. The multi that carries an operation out is sent once. It is repeated
// only if the servers say that they have not carried it out, because another client was first.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	a, err := node.Answer{}, rule.Check(r)
	if err == nil {
		a, err = n.do(ctx, r)
	}
	return a, n.errorf(r.Op.String(), err)
}

// errBusy is of a name that others change all the time.
var errBusy = errors.New("others were first, again and again; nothing was done")

// mostTries bounds how often an operation that lost against others begins again.
const mostTries = 200

func (n *Node) do(ctx context.Context, r node.Request) (node.Answer, error) {
	leave, err := n.turns.Take(ctx, node.Stripe(r.Name))
	if err != nil {
		return node.Answer{}, node.NotSent(err)
	}
	defer leave()
	verified := false
	for try := range mostTries {
		if try > 1 { // twice at once; then others are at it as well
			engine.Pause(ctx, rand.N(time.Duration(min(try, 10))*time.Millisecond))
		}
		s, a, err := n.begin(ctx, r, verified, try == 0)
		switch {
		case lost(err) && ctx.Err() == nil:
			continue // nothing but reads was under way
		case err != nil:
			return node.Answer{}, node.NotSent(err)
		case s == nil:
			return a, nil
		}
		a, outcome, err := s.serve(r)
		switch outcome {
		case done:
			return a, nil
		case failed:
			return node.Answer{}, err
		case again:
			verified = true
		}
	}
	return node.Answer{}, node.NotSent(errBusy)
}

// begin returns what was read for an operation, or the answer that the node does not vote.
func (n *Node) begin(ctx context.Context, r node.Request, verified, first bool) (*step, node.Answer, error) {
	link, err := n.session.Link(ctx)
	if err != nil {
		return nil, node.Answer{}, err
	}
	memory, why, err := n.admitted(ctx, link)
	if err != nil {
		return nil, node.Answer{}, err
	}
	if why != (node.Absence{}) {
		return nil, node.Answer{Status: node.Rejoining, Absence: why}, nil
	}
	if r.Op == node.Acquire || r.Op == node.Extend {
		if err := n.checkTTL(r.TTL, link); err != nil {
			return nil, node.Answer{}, err
		}
	}
	if first {
		if v, ok := n.memories.recall(r.Name, memory, link); ok {
			v.clock = &n.clock
			v.over = v.leaseThere && n.kept.over(r.Name, v.lease.holder, v.leaseStat.EphemeralOwner)
			return &step{view: v, node: n, ctx: ctx, recalled: true}, node.Answer{}, nil
		}
	}
	v, err := n.read(ctx, link, r.Name, memory, verified)
	if err != nil {
		return nil, node.Answer{}, err
	}
	return &step{view: v, node: n, ctx: ctx}, node.Answer{}, nil
}

// checkTTL refuses a lease that might end before its TTL, because the session does, or that
// a quarantine would not wait for.
func (n *Node) checkTTL(ttl time.Duration, link *session.Link) error {
	if own := n.admission.Terms(); own.MaxTTL > 0 && ttl.Truncate(time.Millisecond) > own.MaxTTL {
		return fmt.Errorf("%w: the group's longest lease is %v, and one of %v was asked for", node.ErrMisconfigured,
			own.MaxTTL, ttl)
	}
	if need := ttl + sessionSlack; need > link.Timeout {
		return fmt.Errorf("%w: a lease of %v needs a session of %v, and the servers grant one of %v only: a shorter TTL, or maxSessionTimeout=%d in the configuration of all servers",
			node.ErrMisconfigured, ttl, need, link.Timeout, need.Milliseconds())
	}
	return nil
}

// lost reports whether a connection was lost while something was under way.
func lost(err error) bool {
	var l *session.LostError
	return errors.As(err, &l)
}

// outcome is what became of a step.
type outcome uint8

const (
	done   outcome = iota
	again          // nothing was carried out: begin again, and read what is newest
	failed         // with an error
)

// step is one try of an operation: what was read, and what is to be written.
type step struct {
	view
	node *Node
	ctx  context.Context

	queue        *queue
	multi        wire.Multi
	taken        lease // what is written
	leaseTouched bool
	recalled     bool // nothing was read: see memories
}

// serve has the rules decide on what was read, and has it carried out.
func (s *step) serve(r node.Request) (node.Answer, outcome, error) {
	now, known := s.now()
	if !known && (s.queueThere || s.leased()) && !s.verified {
		return node.Answer{}, again, nil
	}
	before := s.entry(now)
	e := before
	s.queue = &queue{step: s, now: now}
	s.queue.load()
	a, notify := rule.Serve(&e, s.queue, now, r)
	if s.queue.err != nil {
		if lost(s.queue.err) && s.ctx.Err() == nil {
			return a, again, nil
		}
		return node.Answer{}, failed, node.NotSent(s.queue.err)
	}
	writes := a.Status == node.Granted || s.queue.changed || e.Holder != before.Holder
	if !writes {
		// Another server may know more than the one that was asked.
		if !s.verified {
			return a, again, nil
		}
		a.Clock = s.clockOf(a, s.written)
		return a, done, nil
	}
	s.plan(r, a.Status == node.Granted, before, e, now, notify)
	grants := a.Status == node.Granted && (r.Op == node.Acquire || r.Op == node.Extend)
	kept := s.node.kept.sending(r, s.link.ID, grants)
	replies, err := s.link.Do(s.ctx, s.multi)
	switch {
	case lost(err):
		kept.unknown()
		return node.Answer{}, failed, err
	case err != nil:
		kept.undone()
		return node.Answer{}, failed, node.NotSent(err)
	}
	reply := replies[0]
	if create, ok := s.multi[reply.Failed].(wire.Create); ok && reply.Err == wire.NoNode {
		kept.undone()
		return node.Answer{}, failed, node.NotSent(s.node.removed(path.Dir(create.Path)))
	}
	switch reply.Err {
	case wire.OK:
	case wire.NoNode, wire.BadVersion, wire.NodeExists:
		kept.undone()
		s.node.memories.wrong(r.Name)
		if reply.Failed == 0 {
			s.node.forget(s.memory)
		}
		return a, again, nil
	default:
		if !refused(reply.Err) {
			kept.unknown()
			return node.Answer{}, failed, fmt.Errorf("%w; the operation may have been carried out", reply.Err)
		}
		kept.undone()
		return node.Answer{}, failed, node.NotSent(s.node.describe(reply.Err))
	}
	if a.Status == node.Granted {
		kept.granted(r)
	}
	s.node.memories.remember(s, e, reply)
	if notify != "" {
		s.node.mailboxes.put(s.queue.mailbox)
	}
	s.node.known.saw(s.memory, node.Stripe(r.Name), e.Register)
	if written := s.lastWritten(reply); written > 0 {
		s.node.clock.saw(written, reply.Zxid)
		a.Clock = s.clockOf(a, written)
	}
	return a, done, nil
}

// clockOf is what an answer shows of the servers' clock.
func (s *step) clockOf(a node.Answer, written time.Duration) time.Duration {
	if a.Status != node.Held {
		return 0
	}
	return written
}

// lastWritten is when the multi was carried out, on the clock of the leader.
func (s *step) lastWritten(reply wire.Reply) (at time.Duration) {
	for _, result := range reply.Results {
		at = max(at, time.Duration(result.Stat.Mtime)*time.Millisecond)
	}
	return at
}

// refused reports whether a code means that nothing was carried out.
func refused(c wire.Code) bool {
	switch c {
	case wire.NoAuth, wire.InvalidACL, wire.AuthFailed, wire.SessionExpired, wire.SessionMoved,
		wire.NotReadOnly, wire.LocalSession, wire.QuotaExceeded, wire.Throttled, wire.BadArguments, wire.MarshallingError,
		wire.NotEmpty:
		return true
	}
	return false
}
