// Package bounded finds runs of a model for few nodes, holders, rounds and numbers, from its
// initial state. What a run leaves open ("_") a solver finds.
package bounded

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/fenlock/fenlock/internal/proof/model"
	"github.com/fenlock/fenlock/internal/proof/solver"
)

// cell is a symbol of the state, or a fixed one, for some arguments.
type cell struct{ symbol, args string }

// term is a value that is not known yet: for each element, whether it is this one.
type term map[string]bit

type env map[string]string

// search is the state after some steps, as truths of a circuit.
type search struct {
	*circuit
	in    *model.Instance
	fixed map[cell]bit
	terms map[cell]term // fixed functions
	rels  map[cell]bit  // the state
	funs  map[cell]term // the state
}

func at(s *model.Symbol, args []string) cell { return cell{s.Name, strings.Join(args, " ")} }

// Find looks for a run. The steps are the actions with their elements. The answer is not Sat where
// there is no such run, or none was found in time.
func Find(ctx context.Context, s *solver.Solver, run *model.Run, limits solver.Limits) (solver.Answer, []string,
	error) {
	x := &search{circuit: newCircuit(), in: run.In, fixed: map[cell]bit{}, terms: map[cell]term{}, rels: map[cell]bit{},
		funs: map[cell]term{}}
	x.begin()
	type choice struct {
		bit bit
		say string
	}
	var steps [][]choice
	for _, step := range run.Steps {
		bits, envs := x.step(step)
		var all []choice
		for i, b := range bits {
			say := step.Action.Name
			for _, p := range step.Action.Params {
				say += " " + envs[i][p.Name]
			}
			all = append(all, choice{b, say})
		}
		steps = append(steps, all)
	}
	x.assert(x.formula(run.Reach, env{}))
	var names []string
	for _, all := range steps {
		for _, c := range all {
			if c.bit > yes {
				names = append(names, x.name(c.bit))
			}
		}
	}
	answer, holds, err := s.Values(ctx, x.text(), names, limits)
	if err != nil || answer != solver.Sat {
		return answer, nil, err
	}
	var said []string
	for i, all := range steps {
		for _, c := range all {
			if c.bit == yes || c.bit != no && holds[x.name(c.bit)] {
				said = append(said, c.say)
			}
		}
		if len(said) != i+1 {
			return answer, nil, fmt.Errorf("the solver chose no instance, or two, of step %d", i+1)
		}
	}
	return answer, said, nil
}

// begin sets the initial state. What the model leaves open there is false, or the first element:
// any choice is an initial state.
func (x *search) begin() {
	m := x.in.Model
	for _, s := range m.Symbols {
		for _, args := range x.in.Tuples(s.Args) {
			_, _, known := x.in.Fixed(s, args)
			switch {
			case known:
			case s.Result == model.Bool && s.Fixed:
				x.fixed[at(s, args)] = x.variable()
			case s.Result == model.Bool:
				x.rels[at(s, args)] = no
			case s.Fixed:
				t, all := term{}, []bit{}
				for _, e := range x.in.Elements[s.Result] {
					t[e] = x.variable()
					all = append(all, t[e])
				}
				x.exactlyOne(all)
				x.terms[at(s, args)] = t
			default:
				x.funs[at(s, args)] = term{x.in.Elements[s.Result][0]: yes}
			}
		}
	}
	for _, n := range m.Axioms {
		x.assert(x.formula(n.Formula, env{}))
	}
	for _, f := range m.Init { // what (= (relation x...) formula) says is so
		vars, body := []model.Var(nil), f
		if f.Op == model.OpForall {
			vars, body = f.Vars, f.Args[0]
		}
		if body.Op != model.OpEqual || body.Sort != model.Bool || body.Args[0].Op != model.OpApply ||
			body.Args[0].Sort != model.Bool || body.Args[0].Symbol.Fixed {
			continue
		}
		for _, e := range x.envs(vars, env{}) {
			var args []string
			for _, a := range body.Args[0].Args {
				args = append(args, e[a.Name])
			}
			x.rels[at(body.Args[0].Symbol, args)] = x.formula(body.Args[1], e)
		}
	}
	for _, f := range m.Init {
		x.assert(x.formula(f, env{}))
	}
}

// envs returns an environment for each tuple of values of some variables.
func (x *search) envs(vars []model.Var, outer env) []env {
	var sorts []*model.Sort
	for _, v := range vars {
		sorts = append(sorts, v.Sort)
	}
	var all []env
	for _, t := range x.in.Tuples(sorts) {
		e := maps.Clone(outer)
		for i, v := range vars {
			e[v.Name] = t[i]
		}
		all = append(all, e)
	}
	return all
}

// formula returns when a formula holds.
func (x *search) formula(f *model.Expr, e env) bit {
	each := func() []bit {
		var all []bit
		for _, a := range f.Args {
			all = append(all, x.formula(a, e))
		}
		return all
	}
	switch f.Op {
	case model.OpTrue:
		return yes
	case model.OpFalse:
		return no
	case model.OpNot:
		return x.negate(x.formula(f.Args[0], e))
	case model.OpAnd:
		return x.and(each()...)
	case model.OpOr:
		return x.or(each()...)
	case model.OpImply:
		return x.or(x.negate(x.formula(f.Args[0], e)), x.formula(f.Args[1], e))
	case model.OpIte:
		return x.choose(x.formula(f.Args[0], e), x.formula(f.Args[1], e), x.formula(f.Args[2], e))
	case model.OpForall, model.OpExists:
		var all []bit
		for _, inner := range x.envs(f.Vars, e) {
			all = append(all, x.formula(f.Args[0], inner))
		}
		if f.Op == model.OpForall {
			return x.and(all...)
		}
		return x.or(all...)
	case model.OpEqual:
		if f.Args[0].Sort == model.Bool {
			a, b := x.formula(f.Args[0], e), x.formula(f.Args[1], e)
			return x.choose(a, b, x.negate(b))
		}
		a, b := x.term(f.Args[0], e), x.term(f.Args[1], e)
		var all []bit
		for _, v := range x.in.Elements[f.Args[0].Sort] {
			all = append(all, x.and(a[v], b[v]))
		}
		return x.or(all...)
	}
	var all []bit
	x.args(f, e, func(args []string, when bit) { all = append(all, x.and(when, x.holds(f.Symbol, args))) })
	return x.or(all...)
}

func (x *search) holds(s *model.Symbol, args []string) bit {
	if _, is, known := x.in.Fixed(s, args); known {
		if is {
			return yes
		}
		return no
	}
	if s.Fixed {
		return x.fixed[at(s, args)]
	}
	return x.rels[at(s, args)]
}

// term returns the values that a term may have.
func (x *search) term(t *model.Expr, e env) term {
	switch t.Op {
	case model.OpVar:
		if v, bound := e[t.Name]; bound {
			return term{v: yes}
		}
		return term{t.Name: yes} // an element
	case model.OpIte:
		cond := x.formula(t.Args[0], e)
		out := term{}
		then, otherwise := x.term(t.Args[1], e), x.term(t.Args[2], e)
		for _, v := range x.in.Elements[t.Sort] {
			out[v] = x.choose(cond, then[v], otherwise[v])
		}
		return out
	}
	out := term{}
	x.args(t, e, func(args []string, when bit) {
		if v, _, known := x.in.Fixed(t.Symbol, args); known {
			out[v] = when
			return
		}
		value := x.funs[at(t.Symbol, args)]
		if t.Symbol.Fixed {
			value = x.terms[at(t.Symbol, args)]
		}
		for _, v := range x.in.Elements[t.Sort] {
			out[v] = x.or(out[v], x.and(when, value[v]))
		}
	})
	return out
}

// args calls do for all values that the arguments of an application may have.
func (x *search) args(f *model.Expr, e env, do func(args []string, when bit)) {
	var next func(args []string, when bit)
	next = func(args []string, when bit) {
		if len(args) == len(f.Args) {
			do(args, when)
			return
		}
		a := f.Args[len(args)]
		t := x.term(a, e)
		for _, v := range x.in.Elements[a.Sort] {
			if b := x.and(when, t[v]); b != no {
				next(append(args[:len(args):len(args)], v), b)
			}
		}
	}
	next(nil, yes)
}

// step carries out one step, and returns for each instance of its action whether it was this one.
func (x *search) step(s model.Step) (chosen []bit, envs []env) {
	var guards []bit
	for _, e := range x.envs(s.Action.Params, env{}) {
		fits := true
		for i, p := range s.Action.Params {
			fits = fits && (s.Args[i] == "_" || s.Args[i] == e[p.Name])
		}
		if !fits {
			continue
		}
		guard := yes
		for _, g := range s.Action.Guard {
			guard = x.and(guard, x.formula(g, e))
		}
		if guard == no {
			continue
		}
		guards, envs = append(guards, guard), append(envs, e)
	}
	for _, guard := range guards {
		b := yes
		if len(guards) > 1 {
			b = x.variable()
		}
		x.assert(x.or(x.negate(b), guard))
		chosen = append(chosen, b)
	}
	x.exactlyOne(chosen)
	rels, funs := map[cell]bit{}, map[cell]term{}
	for i, b := range chosen {
		for _, u := range s.Action.Updates {
			for _, e := range x.envs(u.Vars, envs[i]) {
				var args []string
				for _, v := range u.Vars {
					args = append(args, e[v.Name])
				}
				key := at(u.Symbol, args)
				if u.Symbol.Result == model.Bool {
					rels[key] = x.or(rels[key], x.and(b, x.formula(u.Value, e)))
					continue
				}
				if funs[key] == nil {
					funs[key] = term{}
				}
				value := x.term(u.Value, e)
				for _, v := range x.in.Elements[u.Symbol.Result] {
					funs[key][v] = x.or(funs[key][v], x.and(b, value[v]))
				}
			}
		}
	}
	maps.Copy(x.rels, rels)
	maps.Copy(x.funs, funs)
	return chosen, envs
}
