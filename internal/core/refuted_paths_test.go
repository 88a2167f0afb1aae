package core_test

import (
	"slices"
	"testing"
)

// TestRefutedRaises refutes variants of how a holder raises its mark. They are wrong after so many
// steps that to look for a counterexample takes minutes. So here are the counterexamples, which are
// replayed in the model of the search. Each step must be one that is possible there, and the last
// one violates an invariant.
func TestRefutedRaises(t *testing.T) {
	const a, b = 0, 1
	one := func(kind moveKind, who, node, arg int) []move { return []move{at(kind, who, node-1, arg)} }
	vanished := func(kind moveKind, who, node, arg int) []move {
		return []move{at(kind, who, node-1, arg).before(true, 0)}
	}
	heard := func(then []move) []move {
		hear := map[moveKind]moveKind{runAcquire: hearAcquire, runExtend: hearExtend, runRaise: hearRaise}
		return append(then, move{kind: hear[then[0].kind], who: then[0].who})
	}
	begins := func(who int) []move { return one(begin, who, 1, 1) }
	extends := one(startExtend, a, 1, 0)
	// Node 3 has promised 2. A holds with 1, by nodes 1 and 2, and has got a lease from node 3 by
	// its first extension. It asks nodes 1 and 2 to raise their registers to 2.
	raising := slices.Concat(begins(a), heard(one(runAcquire, a, 1, 0)), heard(one(runAcquire, a, 2, 0)), extends,
		heard(one(runExtend, a, 1, 1)), heard(one(runExtend, a, 2, 1)), heard(one(runExtend, a, 3, 1)))
	// B holds with 2, by the nodes that have not raised theirs.
	holds := slices.Concat(begins(b), heard(vanished(runAcquire, b, 1, 0)), heard(vanished(runAcquire, b, 2, 0)))
	again := func(round, x, y int) []move { // A extends, where B had leases
		return slices.Concat(extends, heard(vanished(runExtend, a, x, round)), heard(vanished(runExtend, a, y, round)))
	}
	of := func(m model, broken broken) model {
		m.proposals, m.broken = []uint8{1, 2}, broken
		if m.registers == nil {
			m.registers = [][nNodes]uint8{{0, 0, 2}}
		}
		return m
	}
	for _, v := range []struct {
		name  string
		model model
		path  []move
	}{
		{"the mark is raised without asking", of(model{rounds: 2}, broken{raisesUnasked: true}),
			slices.Concat(raising, holds, again(2, 1, 2))},
		{"fewer than a quorum raise the mark",
			of(model{rounds: 2, registers: [][nNodes]uint8{{}}}, broken{raisesByFew: true}),
			slices.Concat(begins(a), heard(one(runAcquire, a, 1, 0)), heard(one(runAcquire, a, 2, 0)),
				one(begin, b, 1, 2), one(runAcquire, b, 3, 0), extends,
				heard(one(runExtend, a, 1, 1)), heard(one(runExtend, a, 2, 1)), heard(vanished(runExtend, a, 3, 1)),
				heard(one(runRaise, a, 1, 1)), heard(vanished(runAcquire, b, 2, 0)), one(hearAcquire, b, 3, 0),
				extends, heard(one(runExtend, a, 1, 2)), heard(one(runExtend, a, 3, 2)))},
		{"a node that does not have the lease raises the mark", of(model{rounds: 2}, broken{raisesByLost: true}),
			slices.Concat(raising, begins(b),
				vanished(runAcquire, b, 1, 0), heard(one(runRaise, a, 1, 1)),
				vanished(runAcquire, b, 2, 0), heard(one(runRaise, a, 2, 1)),
				one(hearAcquire, b, 1, 0), one(hearAcquire, b, 2, 0), again(2, 1, 2))},
		{"leases that began with what the mark is raised to do", of(model{rounds: 2}, broken{raisesByNew: true}),
			slices.Concat(raising, begins(b),
				vanished(runAcquire, b, 1, 0), heard(vanished(runRaise, a, 1, 1)),
				vanished(runAcquire, b, 2, 0), heard(vanished(runRaise, a, 2, 1)),
				one(hearAcquire, b, 1, 0), one(hearAcquire, b, 2, 0),
				extends, heard(one(runExtend, a, 1, 2)), heard(one(runExtend, a, 2, 2)))},
		{"an answer to a raise to another number does",
			of(model{rounds: 3, bumps: 1, bumpBy: []uint8{2}, givesUp: true}, broken{raisesByOther: true}),
			slices.Concat(raising, one(runRaise, a, 1, 1), one(runRaise, a, 2, 1), one(giveUpRaise, a, 1, 0), extends,
				heard(one(runExtend, a, 1, 2)), heard(one(runExtend, a, 2, 2)),
				heard([]move{at(runExtend, a, 2, 2).before(true, 2)}), // node 3, where another name moves the register to 4
				one(hearRaise, a, 1, 0), one(hearRaise, a, 2, 0), holds, again(3, 1, 2))},
		{"an answer to a raise that was given up does",
			of(model{rounds: 3, losses: 1, wants: []uint8{1}, registers: [][nNodes]uint8{{}}}, broken{raisesByOld: true}),
			slices.Concat(begins(a), heard(one(runAcquire, a, 1, 0)), heard(one(runAcquire, a, 2, 0)),
				one(startExtend, a, 1, 1), heard(one(runExtend, a, 1, 1)), heard(one(runExtend, a, 2, 1)), one(runRaise, a, 1, 1),
				one(loseMemory, 0, 1, 0), one(readRegister, 0, 2, 0), one(readRegister, 0, 3, 0), one(admit, 0, 1, 0),
				one(startExtend, a, 1, 1), heard(one(runExtend, a, 1, 2)), heard(one(runExtend, a, 2, 2)),
				heard(one(runRaise, a, 2, 2)), one(hearRaise, a, 1, 0),
				one(begin, b, 1, 2), heard(vanished(runAcquire, b, 1, 0)), heard(one(runAcquire, b, 3, 0)))},
		{"a raise outlives a lease", of(model{rounds: 2, losses: 2}, broken{raisesLate: true}),
			slices.Concat(raising,
				one(loseMemory, 0, 3, 0), one(readRegister, 0, 1, 0), one(readRegister, 0, 2, 0), one(admit, 0, 3, 0),
				one(runRaise, a, 1, 1),
				one(loseMemory, 0, 1, 0), one(readRegister, 0, 2, 0), one(readRegister, 0, 3, 0), one(admit, 0, 1, 0),
				heard(one(runRaise, a, 2, 1)), one(hearRaise, a, 1, 0),
				begins(b), heard(one(runAcquire, b, 1, 0)), heard(one(runAcquire, b, 3, 0)), again(2, 1, 3))},
	} {
		t.Run(v.name, func(t *testing.T) {
			v.model.attempts = 2
			s := v.model.initialStates()[0]
			var steps trace
			for i, mv := range v.path {
				if !slices.Contains(v.model.moves(&s, nil), mv) {
					t.Fatalf("step %d, %+v, is not possible after\n%s", i+1, mv, steps.until(""))
				}
				violation := v.model.apply(&s, mv, &steps)
				if last := i == len(v.path)-1; (violation != "") != last {
					t.Fatalf("step %d of %d:\n%s", i+1, len(v.path), steps.until(violation))
				}
			}
			t.Logf("refuted in %d steps:\n%s", len(v.path), steps.until("see above"))
			// The same steps do no harm to the shipped rules, as far as they are possible.
			v.model.broken = broken{}
			s = v.model.initialStates()[0]
			for _, mv := range v.path {
				if slices.Contains(v.model.moves(&s, nil), mv) {
					if violation := v.model.apply(&s, mv, nil); violation != "" {
						t.Fatalf("not by what was broken: %s", violation)
					}
				}
			}
		})
	}
}
