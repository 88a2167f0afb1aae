package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/internal/sim/proofsteps"
	"github.com/fenlock/fenlock/node"
)

// forcing is a world of locks that operators take away.
func forcing(p *profile) {
	p.nodes, p.breaks, p.only, p.pace, p.hold, p.loss = 3, nothingForced, forced, 200*time.Millisecond, 10*time.Second,
		20_000
}

// returning is a world of locks that are held for long by nodes that lose and get their leases
// again, so that marks are raised.
func returning(p *profile) {
	oneByOne(p)
	p.users, p.rest = 3, 100*time.Millisecond
}

// agreed is a made up answer to a raise.
func (b *broken) agreed() core.Reply {
	return core.Reply{Status: core.Granted, Register: b.Token()}
}

// exporting breaks what is handed over.
type exporting struct {
	shell.Attempt
	unraised, later bool
}

func (e *exporting) OfferExport() fence.Token {
	if e.unraised {
		return fence.Token(proofsteps.MarkOf(e.Attempt, uint64(e.Token())))
	}
	return e.Attempt.OfferExport() + 1
}

func (e *exporting) Export(mark fence.Token, now time.Duration) bool {
	return e.Attempt.Export(mark-1, now)
}

// stepMutants are changes of rules that the other checks find late, if at all, and the steps find
// at once.
var stepMutants = []mutant{
	{name: "a mark is raised without asking", where: returning,
		broken: breaking(func(_ *lock, b *broken) {
			b.answers(core.Extend, func(x answer) core.Action {
				action := b.honest(x)
				if action.Op == core.Extend {
					for i := range b.p.Nodes {
						b.Attempt.OnExtend(i, x.round, action.Token, b.agreed(), x.now)
					}
				}
				return action
			})
		})},
	{name: "a mark is raised by fewer than a quorum", where: returning, broken: breaking(func(_ *lock, b *broken) {
		count := map[fence.Token]core.Set{}
		b.answers(core.Extend, func(x answer) core.Action {
			action := b.honest(x)
			if x.asked == 0 || !b.Accepts(x.Reply) {
				return action
			}
			agreed := count[x.asked].With(x.node)
			if count[x.asked] = agreed; agreed.Len() == core.Quorum(b.p.Nodes)-1 {
				for i := range b.p.Nodes {
					if !agreed.Has(i) {
						return b.Attempt.OnExtend(i, x.round, x.asked, b.agreed(), x.now)
					}
				}
			}
			return action
		})
	})},
	{name: "a mark is raised by nodes that do not have the lease", where: steps,
		broken: mishearing(func(b *broken, x *answer) {
			if x.of == core.Extend && x.asked != 0 && x.Status != core.Granted {
				x.Reply = b.agreed()
			}
		})},
	{name: "a mark is raised by leases that began with what it is raised to", where: steps,
		broken: mishearing(func(b *broken, x *answer) {
			if x.of == core.Extend && x.asked != 0 && x.Status == core.Granted && x.Register <= x.asked {
				x.Reply = b.agreed()
			}
		})},
	{name: "a node that agrees to a raise leaves its register", where: returning,
		broken: serving(node.Extend, nil, func(s *served) { s.Register = s.was.Register })},
	{name: "a forced release asks each node once", where: forcing, broken: func(r *rules) {
		r.force = func(answers []fence.Token) (to core.Set, floor fence.Token) {
			count := 0
			for i, a := range answers {
				if floor = max(floor, a); a == 0 {
					to = to.With(i)
				} else {
					count++
				}
			}
			if count >= core.Quorum(len(answers)) {
				return 0, floor
			}
			return to, 0
		}
	}},
	{name: "what is given does not move the register", where: queueing,
		broken: serving(node.Release, nil, func(s *served) { s.Register = s.was.Register })},
	{name: "an acquire takes a lease that is somebody else's", where: crowd,
		broken: serving(node.Acquire, func(s *served) {
			if !s.Out && s.Leased(s.now) && !s.Holder.Reserves() {
				s.Holder = ""
			}
		}, nil)},
	{name: "a lock is exported without a raise", where: handing, broken: func(r *rules) {
		r.attempt = func(_ *lock, honest shell.Attempt, _ core.Params) shell.Attempt {
			return &exporting{Attempt: honest, unraised: true}
		}
	}},
	{name: "an exported lock goes with the mark after the raise", where: handing, broken: func(r *rules) {
		r.attempt = func(_ *lock, honest shell.Attempt, _ core.Params) shell.Attempt {
			return &exporting{Attempt: honest, later: true}
		}
	}},
	{name: "a lease that is created again has its holder's token for its origin", where: steps,
		broken: serving(node.Extend, nil, func(s *served) {
			if s.a.Status == node.Granted && !s.was.Leased(s.now) && s.r.OwnToken > 0 {
				s.Origin = s.r.OwnToken
				s.a.Register = s.r.OwnToken
			}
		})},
}

// alsoByStep are mutants of the other lists that break a rule of the models.
var alsoByStep = []string{
	"a grant does not move the register",
	"confirm does not check the lease",
	"confirm accepts a register past the number",
	"an extension takes any free lease, whoever had it in between",
	"an extension takes a lease that is somebody else's",
	"an extension deletes the lease and reports success",
	"the largest grant is the token, without confirm",
	"a quorum is one node less than a majority",
	"of an even number of nodes, half are a quorum",
	"a quorum of the nodes that are connected is enough",
	"unknown counts as a grant",
	"an identity is used again by the next attempt",
	"who adopts a lock holds it at once, for as long as the exporter",
	"who adopts a lock counts every acceptance",
	"every acceptance of an extension counts",
	"a node that forgot its locks goes on at once",
	"the quarantine ends early",
	"registers are not rebuilt",
	"registers are rebuilt from one node too few",
	"the other nodes are not asked",
	"a mark of before is taken for one of a store that has lost nothing",
	"the mark of another store is believed",
	"a note of another loss counts",
	"a request that carries an identity counts without a look at the store",
	"the mark is set whatever the store is by now",
	"a name is shared that somebody has alone",
	"one has a name alone that others share",
	"who had a name alone has it again though others share it",
	"the first who shares a name gets the register as it is",
	"a confirm makes an epoch",
}

// TestStepMutants has the steps find each change of a rule of the models: by the step that is
// wrong.
func TestStepMutants(t *testing.T) {
	all := slices.Concat(stepMutants, lateStepMutants)
	for _, name := range alsoByStep {
		i := slices.IndexFunc(mutants(), func(m mutant) bool { return m.name == name })
		if i < 0 {
			t.Errorf("there is no mutant %q", name)
			continue
		}
		all = append(all, mutants()[i])
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| what is broken | the step | after seeds | another check before it |\n|---|---|---|---|\n")
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			found, seeds := m.hunt(max(m.seeds, 100), true, func(v Violation) bool { return v.Check == "steps" })
			if found == nil {
				t.Fatalf("not noticed in %d seeds", seeds)
			}
			step := found[len(found)-1].Text
			what, _, _ := strings.Cut(step, "\n")
			first := ""
			if len(found) > 1 {
				first = found[0].Check
			}
			fmt.Fprintf(&table, "| %s | %s | %d | %s |\n", m.name, what, seeds, first)
			t.Logf("after %d seeds: %.600s", seeds, step)
		})
	}
	t.Logf("%d mutants\n%s", len(all), table.String())
}
