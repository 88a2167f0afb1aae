package sim

import (
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
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

// servingShared is serving for nodes whose names may be shared.
func servingShared(before func(e *rule.Entry, now time.Duration, r *node.Request),
	after func(was rule.Entry, e *rule.Entry, now time.Duration, r node.Request, a *node.Answer)) func(r *rules) {
	return func(r *rules) {
		r.serveShared = func(e *rule.Entry, q rule.Queue, now time.Duration, asked node.Request) (node.Answer, []string) {
			was := *e
			if before != nil {
				before(e, now, &asked)
			}
			a, notify := rule.ServeShared(e, q, now, asked)
			if after != nil {
				after(was, e, now, asked, &a)
			}
			return a, notify
		}
	}
}

// heldAlone reports whether there is an exclusive lease, and it is no reservation.
func heldAlone(e *rule.Entry, now time.Duration) bool {
	return e.Leased(now) && !e.Holder.Shared() && !e.Holder.Reserves()
}

var sharedMutants = []mutant{
	{name: "a name is shared that somebody has alone", checks: is("validity", "tokens", "resource", "extension"),
		seeds: 20, where: shares, broken: servingShared(
			func(e *rule.Entry, now time.Duration, r *node.Request) {
				if r.Op == node.Acquire && r.Shared && heldAlone(e, now) {
					e.Holder = ""
				}
			}, nil)},
	{name: "one has a name alone that others share", checks: is("validity", "tokens", "resource", "extension"), seeds: 20,
		where: shares, broken: servingShared(
			func(e *rule.Entry, now time.Duration, r *node.Request) {
				if r.Op == node.Acquire && !r.Shared && e.Leased(now) && e.Holder.Shared() {
					e.Holder = ""
				}
			}, nil)},
	{name: "who had a name alone has it again though others share it", checks: is("extension"), seeds: 200,
		where: sharedSteps, broken: servingShared(
			func(e *rule.Entry, now time.Duration, r *node.Request) {
				if r.Op == node.Extend && !r.Shared && e.Leased(now) && e.Holder.Shared() {
					e.Holder = ""
				}
			},
			func(was rule.Entry, e *rule.Entry, now time.Duration, r node.Request, a *node.Answer) {
				if r.Op == node.Extend && !r.Shared && a.Status == node.Granted && was.Leased(now) && was.Holder.Shared() {
					e.Origin, a.Register = 0, 0 // as if no waiter had come
				}
			})},
	{name: "the first who shares a name gets the register as it is", checks: is("tokens"), seeds: 20, where: shares,
		broken: servingShared(nil,
			func(was rule.Entry, e *rule.Entry, now time.Duration, r node.Request, a *node.Answer) {
				if r.Op == node.Acquire && r.Shared && a.Status == node.Granted && !was.Leased(now) && was.Register > 0 {
					before, after := strconv.FormatUint(uint64(was.Register), 10), strconv.FormatUint(uint64(e.Register), 10)
					e.Holder = node.Holder(strings.ReplaceAll(string(e.Holder), after, before))
					e.Register, a.Register = was.Register, was.Register
				}
			})},
	{name: "a confirm makes an epoch", checks: is("tokens"), seeds: 400, where: downgrading, broken: servingShared(nil,
		func(was rule.Entry, e *rule.Entry, now time.Duration, r node.Request, a *node.Answer) {
			const none = node.SharedPrefix + "0\n"
			if readers, ok := strings.CutPrefix(string(e.Holder), none); ok && r.Op == node.Confirm && a.Status == node.Granted {
				e.Holder = node.Holder(node.SharedPrefix + r.Token.String() + "\n" + readers)
			}
		})},
}
