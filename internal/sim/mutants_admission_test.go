package sim

import (
	"slices"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// What can go wrong when a store is admitted. Conditions are left out by what a try is told, steps
// come in another order, and stores do not do what admit.Store says.

// finding changes what a try finds a store to be.
func finding(change func(t *try, f *admit.Facts)) func(r *rules) {
	return func(r *rules) {
		r.facts = func(t *try, f admit.Facts) admit.Facts {
			change(t, &f)
			return f
		}
	}
}

// hearing changes what the other nodes have answered.
func hearing(change func(t *try, others []*node.Registers)) func(r *rules) {
	return func(r *rules) {
		r.others = func(t *try, others []*node.Registers) []*node.Registers {
			others = slices.Clone(others)
			for i, o := range others {
				if o != nil {
					answer := *o
					others[i] = &answer
				}
			}
			change(t, others)
			return others
		}
	}
}

// nothing is what a node without memory answers.
func nothing(i int) *node.Registers {
	return &node.Registers{Server: "made up " + string(rune('a'+i)), Memory: "made up"}
}

// pausedBeforeTheMark has a client be paused when it has raised the registers, as any may be.
func pausedBeforeTheMark(r *rules) {
	r.raise = func(t *try, done func(error)) {
		t.raise(func(err error) { t.c.after(t.c.w.upTo(8*time.Second), func() { done(err) }) })
	}
}

// strangers is a world in which a process of another group tries to use the stores.
func strangers(p *profile) {
	p.foreign, p.fresh, p.says, p.breaks, p.only, p.pace = true, false, 0, 0, wiped, 400*time.Millisecond
}

// restores is a world in which stores are replaced by older ones. The clients' clocks are not set,
// so that tokens rest on the registers alone.
func restores(p *profile) {
	p.only, p.pace, p.fresh, p.says, p.breaks = restored, 200*time.Millisecond, false, 0, 0
	p.nodes, p.rest, p.hold, p.trip, p.batches = 3, 30*time.Millisecond, 300*time.Millisecond, 500*time.Microsecond,
		1_000_000
	p.unset, p.idle, p.users, p.tail, p.twice, p.noQueues = true, false, 1, 0, 0, 0
}

// twiceLost is such a world in which a store that was admitted is soon lost again. Locks are held
// for long at a bare majority.
func twiceLost(p *profile) {
	restores(p)
	p.only, p.also, p.pace, p.loss, p.hold = wiped, ringCut, 400*time.Millisecond, 0, 10*time.Second
}

// wipes is a world in which stores are wiped, and clients say that all are new.
func wipes(p *profile) {
	restores(p)
	p.only, p.also, p.says, p.loss, p.hold = wiped, ringCut, 1_000_000, 0, 10*time.Second
}

// alone is a world of groups of one, whose clients say that it is new.
func alone(p *profile) {
	restores(p)
	p.nodes, p.says, p.breaks, p.hold = 1, 1_000_000, registersSurvive, 10*time.Second
}

var admissionMutants = []mutant{
	{name: "the members are not compared", checks: is("admission"), seeds: 40, where: strangers,
		broken: finding(func(t *try, f *admit.Facts) {
			if f.Terms.Members != "" {
				f.Terms.Members = t.c.terms.Members
			}
		})},
	{name: "MaxTTL is not compared", checks: is("admission"), seeds: 40, where: strangers,
		broken: finding(func(t *try, f *admit.Facts) {
			if f.Terms.MaxTTL != 0 {
				f.Terms.MaxTTL = t.c.terms.MaxTTL
			}
		})},
	{name: "the terms of the other nodes are not compared", checks: is("admission"), seeds: 400, where: strangers,
		broken: hearing(func(_ *try, others []*node.Registers) {
			for _, o := range others {
				if o != nil {
					o.MaxTTL, o.Members = 0, ""
				}
			}
		})},
	{name: "the other nodes are not asked", checks: is("tokens", "validity"), seeds: 100, where: lossesUnheard,
		broken: hearing(func(_ *try, others []*node.Registers) {
			for i := range others {
				others[i] = nothing(i)
			}
		})},
	{name: "servers are believed to be new while some do not answer", checks: is("tokens", "validity"), seeds: 400,
		where: wipes, broken: hearing(func(t *try, others []*node.Registers) {
			for i, o := range others {
				if o == nil && !t.Facts.Recorded {
					others[i] = nothing(i)
				}
			}
		})},
	{name: "a server that has something recorded is believed to be new", checks: is("validity"), seeds: 20, where: alone,
		broken: finding(func(_ *try, f *admit.Facts) {
			if !f.Marked {
				f.Recorded, f.Terms = false, admit.Terms{}
			}
		})},
	{name: "a note of another loss counts", checks: is("validity", "tokens"), seeds: 100, where: restores,
		broken: func(r *rules) {
			r.note = func(n *server, f admit.Facts) bool {
				since := n.noted.since
				done := n.note(f)
				if done && since != 0 {
					n.noted.since = since
				}
				return done
			}
		}},
	{name: "the mark is set whatever the store is by now", checks: is("validity", "tokens"), seeds: 400, where: twiceLost,
		broken: all(pausedBeforeTheMark, func(r *rules) {
			r.mark = func(n *server, _ admit.Facts, own admit.Terms, empty []string) bool {
				n.admitted(own, empty)
				return true
			}
		})},
	{name: "the mark of another store is believed", checks: is("validity", "tokens", "extension"), seeds: 20,
		where: restores, broken: func(r *rules) {
			r.believes = func(n *server, _ int) bool { return n.mark != 0 }
			r.counts = func(*server, int) bool { return true }
		}},
	{name: "a mark of before is taken for one of a store that has lost nothing",
		checks: is("validity", "tokens", "extension"), seeds: 20, where: restores,
		broken: finding(func(_ *try, f *admit.Facts) {
			f.Kept = f.Marked && !f.Votes
		})},
	{name: "a request that carries an identity counts without a look at the store",
		checks: is("validity", "tokens", "extension"), seeds: 400, where: restores, broken: func(r *rules) {
			r.counts = func(*server, int) bool { return true }
		}},
	{name: "a store that was started again, and has all, says that its registers do not count",
		checks: is("tokens", "admission"), seeds: 400, broken: func(r *rules) {
			r.complete = (*server).votes
		}},
	{name: "a node that forgot its locks goes on at once", seen: "redlock-rb #27", checks: is("tokens", "validity"),
		seeds: 400, where: losses, broken: func(r *rules) {
			r.believes = func(*server, int) bool { return true }
		}},
	{name: "the quarantine ends early", checks: is("validity", "tokens"), seeds: 4000,
		broken: finding(func(t *try, f *admit.Facts) {
			f.Out *= 4
		}), where: func(p *profile) {
			losses(p)
			p.pace, p.trip, p.hold = 600*time.Millisecond, 500*time.Microsecond, 10*time.Second
		}},
	{name: "registers are not rebuilt", checks: is("tokens"), seeds: 2000, where: lossesUnheard,
		broken: hearing(func(_ *try, others []*node.Registers) {
			for _, o := range others {
				if o != nil {
					o.Tokens = nil
				}
			}
		})},
	{name: "registers are rebuilt from one node too few", checks: is("tokens"), seeds: 5000, where: lossesUnheard,
		broken: hearing(func(t *try, others []*node.Registers) {
			admitted, silent, n := 0, -1, len(others)+1
			for i, o := range others {
				switch {
				case o == nil:
					silent = i
				case o.Admitted:
					admitted++
				}
			}
			if silent >= 0 && admitted == n-core.Quorum(n) {
				others[silent] = nothing(silent)
				others[silent].Admitted = true
			}
		})},
}
