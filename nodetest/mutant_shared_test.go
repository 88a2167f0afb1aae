package nodetest_test

import (
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// sharer is one of several users of a broken node whose names may be shared.
type sharer struct{ *client }

func (c *sharer) Engine() any { return c }

// Shares implements node.Sharer.
func (c *sharer) Shares() {}

// sharing has a node carry out requests to share a name; something happens before and after each.
func sharing(before, after func(s *served)) func(*broken) {
	return func(n *broken) {
		n.check = rule.CheckShared
		n.serve = func(s *served) {
			if before != nil {
				before(s)
			}
			s.a, _ = rule.ServeShared(s.Entry, nil, s.now, s.r) // it keeps no queues
			if after != nil {
				after(s)
			}
		}
	}
}

// sharedMutants are a Sharer.
var sharedMutants = []mutant{
	{"none that shares", "", sharing(nil, nil)},
	{"a confirm makes an epoch", "ConfirmMakesNoEpoch", sharing(nil, func(s *served) {
		const none = node.SharedPrefix + "0\n"
		if h := string(s.Holder); s.r.Op == node.Confirm && s.a.Status == node.Granted && len(h) > len(none) &&
			h[:len(none)] == none {
			s.Holder = node.Holder(node.SharedPrefix + s.a.Register.String() + h[len(none)-1:])
		}
	})},
	{"a confirm leaves the epoch", "ConfirmMakesNoEpoch", sharing(nil, func(s *served) {
		if s.r.Op == node.Confirm && s.Holder.Shared() {
			s.Holder = s.was.Holder
		}
	})},
	{"the first reader moves no register", "SharedNameRefusesWhoWantsItAlone", sharing(nil, func(s *served) {
		if s.r.Op == node.Acquire && s.r.Shared {
			s.Register = s.was.Register
		}
	})},
	{"a name that others share is free", "SharedNameRefusesWhoWantsItAlone", sharing(func(s *served) {
		if s.r.Op == node.Acquire && !s.r.Shared && s.Holder.Shared() {
			s.Holder = ""
		}
	}, nil)},
}
