package zknode

import (
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// renewAt is the version from which on a register's znode is replaced by another, in the same
// multi. Versions have 32 bits, and one of them, -1, means any.
const renewAt = 1 << 30

// plan makes the multi that turns what was read into what the rules have left.
func (s *step) plan(r node.Request, granted bool, before, after rule.Entry, now time.Duration, notify string) {
	p, acl := s.node.paths, s.node.acl
	s.multi = wire.Multi{wire.Check{Path: p.mark(s.memory), Version: wire.Any}}
	s.add(setRegister(p.register(node.Stripe(s.name)), &s.view, registerText(after.Register), acl)...)
	s.planLease(r, granted, before, after, now)
	s.planQueue(after, now, notify)
}

func (s *step) add(ops ...wire.Request) { s.multi = append(s.multi, ops...) }

// setRegister sets the register of the stripe: whatever was read after it is as it was, or
// this fails.
func setRegister(path string, v *view, text []byte, acl wire.ACL) []wire.Request {
	create := wire.Create{Path: path, Data: text, ACL: acl}
	switch {
	case !v.registerThere:
		return []wire.Request{create}
	case v.version >= renewAt || v.version < 0:
		return []wire.Request{wire.Delete{Path: path, Version: v.version}, create}
	}
	return []wire.Request{wire.Set{Path: path, Data: text, Version: v.version}}
}

// planLease writes the lease. One that is taken or extended is written even if it looks as
// before: who watches it has to see that it was changed.
func (s *step) planLease(r node.Request, granted bool, before, after rule.Entry, now time.Duration) {
	path := s.node.paths.lease(s.name)
	if !after.Leased(now) || after.Holder.Reserves() {
		if s.leaseThere {
			s.leaseTouched = true
			s.add(wire.Delete{Path: path, Version: wire.Any})
		}
		return
	}
	l := lease{s.name, after.Holder, s.lease.ttl, after.Origin, after.Token}
	takes := granted && (r.Op == node.Acquire || r.Op == node.Extend)
	mine := s.leaseThere && s.leaseStat.EphemeralOwner == s.link.ID
	if takes {
		l.ttl = r.TTL.Truncate(time.Millisecond)
	}
	create := wire.Create{Path: path, Data: l.text(), ACL: s.node.acl, Ephemeral: true}
	s.taken, s.leaseTouched = l, takes || after != before
	switch {
	case !s.leaseTouched: // of a holder that is not asking
	case !s.leaseThere:
		s.add(create)
	case !takes || mine:
		s.add(wire.Set{Path: path, Data: l.text(), Version: wire.Any})
	default: // it is in another session, whose end is no business of this holder's
		s.add(wire.Delete{Path: path, Version: wire.Any}, create)
	}
}

// planQueue writes the queue, with the reservation that the rules have left, and the
// notification.
func (s *step) planQueue(after rule.Entry, now time.Duration, notify string) {
	q, path := s.queue, s.node.paths.queue(s.name)
	reserved, until := "", time.Duration(0)
	if after.Leased(now) && after.Holder.Reserves() {
		reserved, until = waiterOf(after.Holder), after.Expires
	}
	if reserved != s.record.reserved && (reserved != "" || s.record.reserved != "") {
		q.changed = true
	}
	if q.changed {
		record := queueRecord{s.name, q.renewed, reserved, until, q.Waiters}
		switch {
		case len(q.Waiters) == 0 && reserved == "":
			if s.queueThere {
				s.add(wire.Delete{Path: path, Version: wire.Any})
			}
		case s.queueThere:
			s.add(wire.Set{Path: path, Data: record.text(), Version: wire.Any})
		default:
			s.add(wire.Create{Path: path, Data: record.text(), ACL: s.node.acl})
		}
	}
	if notify != "" {
		left := ""
		if len(q.Waiters) == 0 {
			left = s.left(after, queueRecord{s.name, q.renewed, reserved, until, nil})
		}
		s.add(q.mailbox.tell(s.node.paths, notify, left))
	}
}
