package sim

import (
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
)

// What a node can do wrongly with a name that several share.

func shares(p *profile) { p.shares = true }

func sharedSteps(p *profile) {
	steps(p)
	p.shares = true
}

// downgrading is a world of shared names in which every request is executed twice.
func downgrading(p *profile) {
	sharedSteps(p)
	p.twice, p.nodes, p.users, p.hold, p.trip = 1_000_000, 3, 3, 300*time.Millisecond, 300*time.Microsecond
}

var sharedMutants = []mutant{
	{name: "a name is shared that somebody has alone", checks: is("validity", "tokens", "resource", "extension"),
		seeds: 20, where: shares, broken: serving(node.Acquire, func(s *served) {
			if s.r.Shared && s.Leased(s.now) && !s.Holder.Shared() && !s.Holder.Reserves() {
				s.Holder = ""
			}
		}, nil)},
	{name: "one has a name alone that others share", checks: is("validity", "tokens", "resource", "extension"), seeds: 20,
		where: shares, broken: serving(node.Acquire, func(s *served) {
			if !s.r.Shared && s.Leased(s.now) && s.Holder.Shared() {
				s.Holder = ""
			}
		}, nil)},
	{name: "who had a name alone has it again though others share it", checks: is("extension"), seeds: 200,
		where: sharedSteps, broken: serving(node.Extend, func(s *served) {
			if !s.r.Shared && s.Leased(s.now) && s.Holder.Shared() {
				s.Holder = ""
			}
		}, func(s *served) {
			if !s.r.Shared && s.a.Status == node.Granted && s.was.Leased(s.now) && s.was.Holder.Shared() {
				s.Origin, s.a.Register = 0, 0 // as if no waiter had come
			}
		})},
	{name: "the first who shares a name gets the register as it is", checks: is("tokens"), seeds: 20, where: shares,
		broken: serving(node.Acquire, nil, func(s *served) {
			if s.r.Shared && s.a.Status == node.Granted && !s.was.Leased(s.now) && s.was.Register > 0 {
				s.Holder = node.Holder(strings.ReplaceAll(string(s.Holder), s.Register.String(), s.was.Register.String()))
				s.Register, s.a.Register = s.was.Register, s.was.Register
			}
		})},
	{name: "a confirm makes an epoch", checks: is("tokens"), seeds: 400, where: downgrading,
		broken: serving(node.Confirm, nil, func(s *served) {
			const none = node.SharedPrefix + "0\n"
			if readers, ok := strings.CutPrefix(string(s.Holder), none); ok && s.a.Status == node.Granted {
				s.Holder = node.Holder(node.SharedPrefix + s.r.Token.String() + "\n" + readers)
			}
		})},
}
