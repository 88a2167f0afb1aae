package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/proof/bounded"
	"github.com/fenlock/fenlock/internal/proof/model"
	"github.com/fenlock/fenlock/internal/proof/solver"
)

// runs finds each run of a model, and refutes each broken rule twice. An invariant is not kept, and
// a run from the initial state breaks a promise.
func (p *prover) runs(f file) {
	began := time.Now()
	bad, broken := 0, 0
	p.inParallel(len(f.runs), func(i int) string {
		r := f.runs[i]
		answer, steps, err := bounded.Find(p.ctx, p.solver, r, p.limits)
		if err != nil {
			return "no run: " + err.Error()
		}
		if answer != solver.Sat {
			return "no run: " + string(answer)
		}
		said := fmt.Sprintf("ok %s: %s", r.Name, strings.Join(steps, "; "))
		if r.Broken {
			lost, err := p.lost(r)
			if err != nil {
				return "not refuted by induction: " + err.Error()
			}
			said += fmt.Sprintf(" => not %s; %s", r.Breaks.Name, lost)
		}
		return said
	}, func(i int, said string) {
		if f.runs[i].Broken {
			broken++
		}
		ok := strings.HasPrefix(said, "ok ")
		if !ok {
			bad++
		}
		if !ok || p.verbose {
			fmt.Fprintf(p.out, "%s: %s: %s\n", f.runs[i].Pos, f.runs[i].Name,
				strings.TrimPrefix(said, "ok "+f.runs[i].Name+": "))
		}
	})
	p.failed = p.failed || bad > 0
	fmt.Fprintf(p.out, "%s: %d runs, %d broken rules refuted twice in %.1f s, %s\n", f.name, len(f.runs)-broken, broken,
		time.Since(began).Seconds(),
		found(bad))
}

func found(bad int) string {
	if bad == 0 {
		return "all found"
	}
	return fmt.Sprintf("not found or not refuted: %d", bad)
}

// lost returns one invariant that a broken rule does not keep. An answer "unknown" is none.
func (p *prover) lost(r *model.Run) (string, error) {
	unknown := 0
	for _, name := range r.Changed {
		said := ""
		err := p.ask(r.Model.Step(r.Model.Action(name)), func(n *model.Named, a solver.Answer) bool {
			switch a {
			case solver.Sat:
				said = name + " does not keep " + n.Name
			case solver.Unknown:
				unknown++
			}
			return said == ""
		})
		if err != nil || said != "" {
			return said, err
		}
	}
	if unknown > 0 {
		return "", fmt.Errorf("%d answers are unknown, and the others keep every invariant", unknown)
	}
	return "", errors.New("every invariant is kept")
}
