package trace

import (
	"fmt"
	"slices"

	"github.com/fenlock/fenlock/internal/proof/model"
)

// compiler turns the formulas of one action into functions.
type compiler struct {
	mc    *Machine
	slots map[string]int // of variables
	count int
}

func (c *compiler) slot(name string) int {
	if at, has := c.slots[name]; has {
		return at
	}
	if c.count == maxVars {
		panic(fmt.Errorf("too many variables"))
	}
	c.slots[name] = c.count
	c.count++
	return c.count - 1
}

func (c *compiler) action(a *model.Action) (act *Action, err error) {
	defer func() {
		if e, is := recover().(error); is {
			act, err = nil, e
		}
	}()
	act = &Action{Action: a, uses: make([][]int, len(a.Params))}
	for _, p := range a.Params {
		c.slot(p.Name)
	}
	for i, g := range a.Guard {
		act.guard = append(act.guard, c.formula(g))
		for p, v := range a.Params {
			if mentions(g, v.Name) {
				act.uses[p] = append(act.uses[p], i)
			}
		}
	}
	for _, u := range a.Updates {
		sym := c.mc.bySym[u.Symbol]
		if sym == nil || u.Symbol.Cut != nil && u.Symbol != u.Symbol.Cut.Reached {
			continue
		}
		act.updates = append(act.updates, c.update(u, sym))
	}
	return act, nil
}

func mentions(e *model.Expr, name string) bool {
	return e.Op == model.OpVar && e.Name == name ||
		slices.ContainsFunc(e.Args, func(x *model.Expr) bool { return mentions(x, name) })
}

// update takes an effect apart, as package model has put it together.
func (c *compiler) update(u *model.Update, sym *symbol) update {
	out := update{sym: sym, at: make([]term, sym.keys), slot: make([]int, sym.keys)}
	var here *model.Expr // the place, and a condition
	switch v := u.Value; {
	case v.Op == model.OpOr && sym.kind != cut:
		out.what, here = "add", v.Args[1]
	case v.Op == model.OpAnd && v.Args[1].Op == model.OpNot:
		out.what, here = "del", v.Args[1].Args[0]
	case v.Op == model.OpIte:
		out.what, here = "let", v.Args[0]
	default:
		panic(fmt.Errorf("an effect on %s of no known form", sym.Name))
	}
	place := map[string]*model.Expr{}
	var conds []*model.Expr
	for _, e := range here.Args {
		if e.Op == model.OpEqual && e.Args[0].Op == model.OpVar && isVar(u.Vars, e.Args[0].Name) &&
			place[e.Args[0].Name] == nil {
			place[e.Args[0].Name] = e.Args[1]
		} else {
			conds = append(conds, e)
		}
	}
	for i := range sym.keys {
		if x := place[u.Vars[i].Name]; x != nil {
			out.at[i] = c.term(x)
		}
		out.slot[i] = c.slot(u.Vars[i].Name)
	}
	switch {
	case sym.kind == cut:
		if out.what != "let" || len(conds) > 0 {
			panic(fmt.Errorf("an effect on the cut of %s of no known form", sym.Name))
		}
		out.to = c.number(u.Value.Args[1], u.Vars[len(u.Vars)-1].Name)
	case out.what == "let" && sym.kind == flag:
		is := c.formula(u.Value.Args[1])
		out.to = func(f *frame) uint64 { return b2i(is(f)) }
	case out.what == "let":
		out.to = c.term(u.Value.Args[1])
	case out.what == "add" && sym.kind == above:
		last := u.Vars[len(u.Vars)-1].Name
		var others []*model.Expr
		for _, e := range conds {
			if x, is := threshold(c.mc.Model, e, last); is {
				out.to = c.term(x)
			} else {
				others = append(others, e)
			}
		}
		conds = others
		if len(conds) == 1 && conds[0].Op == model.OpAnd {
			conds = nil
			for _, e := range others[0].Args {
				if x, is := threshold(c.mc.Model, e, last); is {
					out.to = c.term(x)
				} else {
					conds = append(conds, e)
				}
			}
		}
		if len(conds) > 1 {
			conds = []*model.Expr{{Op: model.OpAnd, Args: conds, Sort: model.Bool}}
		}
		if out.to == nil {
			panic(fmt.Errorf("%s is added to otherwise than from a number on", sym.Name))
		}
	}
	if out.what == "del" && sym.kind == above && (place[u.Vars[len(u.Vars)-1].Name] != nil || len(conds) > 0) {
		panic(fmt.Errorf("only all numbers can be removed from %s", sym.Name))
	}
	for i, t := range out.at {
		if t == nil && out.what != "del" {
			out.stars = append(out.stars, i)
		}
	}
	if out.what == "let" && len(conds) > 0 {
		panic(fmt.Errorf("let of %s has a condition", sym.Name))
	}
	if len(conds) > 0 {
		out.cond = c.formula(conds[0])
	}
	if len(out.stars) == 0 {
		return out
	}
	// Which values an argument stands for has to follow from what is said of them.
	said := u.Value.Args[1]
	if out.what == "add" {
		said = nil
		if len(conds) > 0 {
			said = conds[0]
		}
	}
	if said == nil || !c.sources(said, u.Vars, &out) {
		panic(fmt.Errorf("which values of %s are added follows from no relation", sym.Name))
	}
	return out
}

// sources finds where the values come from for which a formula can hold.
func (c *compiler) sources(e *model.Expr, vars []model.Var, out *update) bool {
	switch e.Op {
	case model.OpAnd:
		for _, x := range e.Args {
			if c.sources(x, vars, out) {
				return true
			}
		}
	case model.OpOr:
		for _, x := range e.Args {
			if !c.sources(x, vars, out) {
				return false
			}
		}
		return true
	case model.OpEqual:
		a, b := e.Args[0], e.Args[1]
		if len(out.stars) == 1 && a.Op == model.OpVar && a.Name == vars[out.stars[0]].Name {
			out.from = append(out.from, source{is: c.term(b)})
			return true
		}
	case model.OpApply:
		k := c.mc.bySym[e.Symbol]
		if k == nil || k.kind != flag {
			return false
		}
		s, has := source{rel: k}, 0
		for _, x := range e.Args {
			if x.Op == model.OpVar && isVar(vars, x.Name) {
				s.args, s.free = append(s.args, nil), append(s.free, c.slot(x.Name))
				has++
			} else {
				s.args, s.free = append(s.args, c.term(x)), append(s.free, -1)
			}
		}
		if has == len(out.stars) {
			out.from = append(out.from, s)
			return true
		}
	}
	return false
}

func isVar(vars []model.Var, name string) bool {
	return slices.ContainsFunc(vars, func(v model.Var) bool { return v.Name == name })
}

// number is the largest x for which a formula of a cut holds.
func (c *compiler) number(e *model.Expr, x string) term {
	switch e.Op {
	case model.OpOr:
		a, b := c.number(e.Args[0], x), c.number(e.Args[1], x)
		return func(f *frame) uint64 { return max(a(f), b(f)) }
	case model.OpApply:
		if k := c.mc.bySym[e.Symbol]; k != nil && k.kind == cut {
			at := c.terms(e.Args[:k.keys])
			return func(f *frame) uint64 { return f.s.get(k, at(f)) }
		}
		if len(e.Args) == 2 && e.Args[0].Op == model.OpVar && e.Args[0].Name == x {
			return c.term(e.Args[1])
		}
	}
	panic(fmt.Errorf("a number of no known form"))
}

func (c *compiler) terms(args []*model.Expr) func(f *frame) key {
	all := make([]term, len(args))
	for i, x := range args {
		all[i] = c.term(x)
	}
	return func(f *frame) (k key) {
		for i, t := range all {
			k[i] = t(f)
		}
		return k
	}
}

func (c *compiler) term(e *model.Expr) term {
	switch e.Op {
	case model.OpVar:
		at := c.slot(e.Name)
		return func(f *frame) uint64 { return f.env[at] }
	case model.OpIte:
		is, a, b := c.formula(e.Args[0]), c.term(e.Args[1]), c.term(e.Args[2])
		return func(f *frame) uint64 {
			if is(f) {
				return a(f)
			}
			return b(f)
		}
	case model.OpApply:
		for _, s := range c.mc.Model.Sorts {
			if s.Least == e.Symbol {
				return func(*frame) uint64 { return 0 }
			}
		}
		k, at := c.mc.bySym[e.Symbol], c.terms(e.Args)
		return func(f *frame) uint64 { return f.s.get(k, at(f)) }
	}
	panic(fmt.Errorf("a term of no known form"))
}

func (c *compiler) formula(e *model.Expr) formula {
	switch e.Op {
	case model.OpTrue:
		return func(*frame) bool { return true }
	case model.OpFalse:
		return func(*frame) bool { return false }
	case model.OpNot:
		a := c.formula(e.Args[0])
		return func(f *frame) bool { return !a(f) }
	case model.OpAnd, model.OpOr:
		var all []formula
		for _, x := range e.Args {
			all = append(all, c.formula(x))
		}
		ends := e.Op == model.OpOr
		return func(f *frame) bool {
			for _, a := range all {
				if a(f) == ends {
					return ends
				}
			}
			return !ends
		}
	case model.OpImply:
		a, b := c.formula(e.Args[0]), c.formula(e.Args[1])
		return func(f *frame) bool { return !a(f) || b(f) }
	case model.OpIte:
		is, a, b := c.formula(e.Args[0]), c.formula(e.Args[1]), c.formula(e.Args[2])
		return func(f *frame) bool {
			if is(f) {
				return a(f)
			}
			return b(f)
		}
	case model.OpEqual:
		if e.Args[0].Sort == model.Bool {
			a, b := c.formula(e.Args[0]), c.formula(e.Args[1])
			return func(f *frame) bool { return a(f) == b(f) }
		}
		a, b := c.term(e.Args[0]), c.term(e.Args[1])
		return func(f *frame) bool { return a(f) == b(f) }
	case model.OpApply:
		return c.apply(e)
	case model.OpForall:
		return c.all(e.Vars, e.Args[0])
	case model.OpExists:
		none := c.all(e.Vars, &model.Expr{Op: model.OpNot, Args: e.Args[:1], Sort: model.Bool})
		return func(f *frame) bool { return !none(f) }
	}
	panic(fmt.Errorf("a formula of no known form"))
}

func (c *compiler) apply(e *model.Expr) formula {
	for _, s := range c.mc.Model.Sorts {
		switch e.Symbol {
		case s.Order:
			a, b := c.term(e.Args[0]), c.term(e.Args[1])
			return func(f *frame) bool { return a(f) <= b(f) }
		case s.Member:
			a, b := c.term(e.Args[0]), c.term(e.Args[1])
			return func(f *frame) bool { return b(f)&(1<<a(f)) != 0 }
		}
	}
	k := c.mc.bySym[e.Symbol]
	at := c.terms(e.Args[:k.keys])
	switch k.kind {
	case above:
		x := c.term(e.Args[k.keys])
		return func(f *frame) bool {
			from := f.s.get(k, at(f))
			return from != 0 && from-1 <= x(f)
		}
	case cut:
		x := c.term(e.Args[k.keys])
		if e.Symbol.Cut.Passed == e.Symbol {
			return func(f *frame) bool { return x(f) < f.s.get(k, at(f)) }
		}
		return func(f *frame) bool { return x(f) <= f.s.get(k, at(f)) }
	}
	return func(f *frame) bool { return f.s.get(k, at(f)) != 0 }
}

// all is a quantifier: over nodes, or over the tuples of a relation that has all of the variables.
func (c *compiler) all(vars []model.Var, body *model.Expr) formula {
	if len(vars) == 1 && vars[0].Sort.Name == "node" {
		at, is := c.slot(vars[0].Name), c.formula(body)
		return func(f *frame) bool {
			for n := range f.nodes {
				if f.env[at] = n; !is(f) {
					return false
				}
			}
			return true
		}
	}
	guard := body
	if body.Op == model.OpNot || body.Op == model.OpImply {
		guard = body.Args[0]
	}
	if guard.Op == model.OpAnd {
		guard = guard.Args[0]
	}
	k := c.mc.bySym[guard.Symbol]
	if guard.Op != model.OpApply || k == nil || k.kind != flag {
		panic(fmt.Errorf("a quantifier over %ss that no relation bounds", vars[0].Sort.Name))
	}
	is := c.formula(body)
	args, free := make([]term, k.keys), make([]int, k.keys)
	bound := 0
	for i, x := range guard.Args {
		if x.Op == model.OpVar && isVar(vars, x.Name) {
			free[i] = c.slot(x.Name)
			bound++
		} else {
			args[i] = c.term(x)
		}
	}
	if bound != len(vars) {
		panic(fmt.Errorf("a quantifier over %ss that no relation bounds", vars[0].Sort.Name))
	}
	return func(f *frame) bool {
		holds := true
		f.s.each(k, func(at key, _ uint64) bool {
			for i, t := range args {
				if t != nil && t(f) != at[i] {
					return true
				}
				if t == nil {
					f.env[free[i]] = at[i]
				}
			}
			holds = is(f)
			return holds
		})
		return holds
	}
}
