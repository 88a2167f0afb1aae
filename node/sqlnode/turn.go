package sqlnode

import (
	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/rule"
)

// The decisions below are those of internal/rule/line.go, step by step, for a line
// that is in a table: loading up to 10,000 waiters for every operation would
// cost more than the operation. A test compares the two.

// acquireInLine is rule.AcquireInLine.
func (v *visit) acquireInLine(p fenlock.Place, acquire func() core.Reply) core.Reply {
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
	case core.Granted:
		v.line.leave(p.Waiter)
	case core.Held:
		v.line.join(p)
	}
	if p.Waiter != "" {
		v.line.keep()
	}
	return reply
}

// releaseInLine is rule.ReleaseInLine.
func (v *visit) releaseInLine(p fenlock.Place, release func() core.Reply) core.Reply {
	reply := release()
	freed := reply.Status == core.Granted
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
func (v *visit) forceReleaseInLine(force func() core.Reply) core.Reply {
	reply := force()
	if reply.Status == core.Granted {
		v.call("")
	}
	return reply
}

// keptFor reports whether the name is kept for a waiter.
func (v *visit) keptFor(waiter string) bool {
	return waiter != "" && v.entry.Leased(v.now) && v.entry.Holder == rule.Reserved(waiter)
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
			v.entry.Holder, v.entry.Expires = rule.Reserved(head), v.now+core.ClaimWindow
			return
		}
	}
}
