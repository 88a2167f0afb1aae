package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/internal/proof/model"
	"github.com/fenlock/fenlock/internal/proof/solver"
)

// audit removes each conjunct of each guard in turn. Where everything is proved without it, the
// conjunct is needless: it leaves the model, or "also" there says why it stays.
func (p *prover) audit(f file) {
	began := time.Now()
	type removal struct {
		action *model.Action
		at     int
	}
	var all []removal
	for _, a := range f.Actions {
		for i := range a.Guard {
			all = append(all, removal{a, i})
		}
	}
	needless, unsaid := 0, 0
	p.inParallel(len(all), func(i int) string {
		weaker := *all[i].action
		weaker.Guard = slices.Delete(slices.Clone(weaker.Guard), all[i].at, all[i].at+1)
		said := ""
		err := p.ask(f.Step(&weaker), func(n *model.Named, a solver.Answer) bool {
			if a == solver.Sat {
				said = n.Name
			} else if a != solver.Unsat {
				said = n.Name + "?"
			}
			return a != solver.Sat
		})
		if err != nil {
			return "? " + err.Error()
		}
		return said
	}, func(i int, said string) {
		g, c := all[i].action.Guard[all[i].at], all[i].action.Conjuncts[all[i].at]
		what := fmt.Sprintf("%s: %s, %s: ", g.Pos, all[i].action.Name, c.Text)
		switch {
		case said == "" && c.Also == "":
			unsaid++
			fmt.Fprintln(p.out, what+"everything is proved without it")
		case said == "":
			needless++
			fmt.Fprintln(p.out, what+"needless, and stays: "+c.Also)
		case c.Also != "":
			unsaid++
			fmt.Fprintln(p.out, what+"said to be needless, but needed for "+said)
		case p.verbose:
			fmt.Fprintln(p.out, what+"needed for "+said)
		}
	})
	p.failed = p.failed || unsaid > 0
	fmt.Fprintf(p.out, "%s: %d conjuncts removed in turn in %.1f s: %d needless and said to be, %d unsaid\n", f.name,
		len(all), time.Since(began).Seconds(), needless, unsaid)
}
