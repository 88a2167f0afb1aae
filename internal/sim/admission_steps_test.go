package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/rule"
)

// admissionStepMutants are changes of the rules by which stores are admitted that have no other
// name.
var admissionStepMutants = []mutant{
	{name: "a node that is silent has lost its memory", where: lossesUnheard,
		broken: hearing(func(_ *try, others []*node.Registers) {
			for i, o := range others {
				if o == nil {
					others[i] = nothing(i)
				}
			}
		})},
	{name: "one of the registers that were read is left out", where: lossesUnheard,
		broken: hearing(func(_ *try, others []*node.Registers) {
			if i := slices.IndexFunc(others, func(o *node.Registers) bool { return o != nil && o.Admitted }); i >= 0 {
				others[i].Tokens = nil
			}
		})},
	{name: "the others are asked once", where: majorities, broken: askedOnce},
	{name: "the quarantine is without the drift", where: losses, broken: finding(func(t *try, f *admit.Facts) {
		f.Out += rule.Drift(t.c.w.maxTTL)
	})},
	{name: "every server is on the list", where: lossesUnheard, broken: hearing(func(t *try, others []*node.Registers) {
		for _, o := range others {
			if o != nil && o.Admitted {
				o.Empty = append(slices.Clone(o.Empty), t.Facts.Memory)
			}
		}
	})},
}

// askedOnce has the second answers be the first ones.
func askedOnce(r *rules) {
	first := map[*try][]*node.Registers{}
	r.others = func(t *try, others []*node.Registers) []*node.Registers {
		if t.asked == 1 {
			first[t] = others
		}
		return first[t]
	}
}

// majorities is a world of majorities that lose their memory, and of answers that come late.
func majorities(p *profile) {
	p.breaks, p.fresh, p.says, p.unset, p.foreign, p.only, p.also = registersSurvive, false, 0, false, false, majorityLost,
		emptied
	p.nodes, p.pace, p.rest, p.hold, p.trip, p.tail = 3, 600*time.Millisecond, time.Second, 300*time.Millisecond,
		20*time.Millisecond, 50_000
}

// byAdmission are the mutants that the steps of admission.model are to find, with the step that it
// refuses.
var byAdmission = []struct{ name, step string }{
	{"a node that is silent has lost its memory", "no majority had lost its memory"},
	{"the other nodes are not asked", "no majority had lost its memory"},
	{"the others are asked once", "no majority had lost its memory"},
	{"one of the registers that were read is left out", "when it is admitted: the effect differs: its register is"},
	{"registers are not rebuilt", "when it is admitted: the effect differs: its register is"},
	{"registers are rebuilt from one node too few", "the guard is false for every readers"},
	{"a mark of before is taken for one of a store that has lost nothing", "the guard is false for every readers"},
	{"every server is on the list", "the guard is false: (listed n)"},
	{"the quarantine ends early", "the guard is false: (ready n)"},
	{"the quarantine is without the drift", "the guard is false: (ready n)"},
	{"a note of another loss counts", "the guard is false: (ready n)"},
	{"the mark is set whatever the store is by now", "the guard is false: (ready n)"},
	{"servers are believed to be new while some do not answer", "the guard is false: (not (used n))"},
	{"a server that has something recorded is believed to be new", "the guard is false: (not (used n))"},
	{"a node that forgot its locks goes on at once", "the guard is false: (not (out n))"},
	{"a request that carries an identity counts without a look at the store", "the guard is false: (not (out n))"},
}

// TestAdmissionStepMutants has the steps of admission.model find each change of a rule of it.
func TestAdmissionStepMutants(t *testing.T) {
	all := slices.Concat(admissionStepMutants, mutants())
	for _, c := range byAdmission {
		t.Run(c.name, func(t *testing.T) {
			i := slices.IndexFunc(all, func(m mutant) bool { return m.name == c.name })
			if i < 0 {
				t.Fatal("there is no such mutant")
			}
			found, seeds := all[i].hunt(1000, true, func(v Violation) bool {
				what, _, _ := strings.Cut(v.Text, "\n")
				return v.Check == "admission steps" && strings.Contains(what, c.step)
			})
			if found == nil {
				t.Fatalf("no step is refused in %d seeds because %s", seeds, c.step)
			}
			what, _, _ := strings.Cut(found[len(found)-1].Text, "\n")
			t.Logf("after %d seeds: %s", seeds, what)
		})
	}
}
