package sqlnode

import (
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// The decisions below are those of node/rule/line.go, step by step, for a line
// that is in a table: loading up to 10,000 waiters for every operation would
// cost more than the operation. A test compares the two.

// acquireInLine is rule.AcquireInLine.
func (v *visit) acquireInLine(p node.Place, acquire func() rule.Reply) rule.Reply {
	v.asker = p.Waiter
	switch {
	case v.keptFor(p.Waiter):
		v.entry.Holder = ""
	case !v.entry.Leased(v.now) && v.line.exists():
		v.line.join(p)
		v.call(p.Waiter)
	}
	reply := acquire()
	switch reply.Status {
	case node.Granted:
		v.line.leave(p.Waiter)
	case node.Held:
		v.line.join(p)
	}
	if p.Waiter != "" {
		v.line.keep()
	}
	return reply
}

// releaseInLine is rule.ReleaseInLine.
func (v *visit) releaseInLine(p node.Place, release func() rule.Reply) rule.Reply {
	reply := release()
	freed := reply.Status == node.Granted
	if p.Waiter != "" {
		if v.keptFor(p.Waiter) {
			v.entry.Holder, freed = "", true
		}
		if p.Stamp == 0 {
			v.line.leave(p.Waiter)
		} else {
			v.line.join(p)
			v.line.keep()
		}
	}
	if freed {
		v.call(p.Waiter)
	}
	return reply
}

// forceReleaseInLine is rule.ForceReleaseInLine.
func (v *visit) forceReleaseInLine(force func() rule.Reply) rule.Reply {
	reply := force()
	if reply.Status == node.Granted {
		v.call("")
	}
	return reply
}

// keptFor reports whether the name is kept for a waiter.
func (v *visit) keptFor(waiter string) bool {
	return waiter != "" && v.entry.Leased(v.now) && v.entry.Holder == node.Reserved(waiter)
}

// call takes the first in line whom it can reach out of it, and keeps the name
// for that one. It stops at self, which needs no call.
func (v *visit) call(self string) {
	for {
		head := v.line.head()
		if head == "" || head == self {
			return
		}
		v.line.leave(head)
		if to := v.line.node.reach(head); to != nil {
			v.called = to
			v.entry.Holder, v.entry.Expires = node.Reserved(head), v.now+rule.ReservationTTL
			return
		}
	}
}
