package model

import (
	"slices"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

func (p *parser) action(f *Form, args []*Form) {
	if len(args) < 3 || !args[1].IsList() || args[2].Head() != "if" {
		fail(f.Pos, "(action name (x...) (if formula...) effect...)")
	}
	a := &Action{Pos: f.Pos, Name: p.name(args[0]), Params: p.params(args[1].List)}
	sc := newScope(a.Params)
	for _, g := range args[2].List[1:] {
		c := Conjunct{Text: g.String()}
		if g.Head() == "also" {
			if len(g.List) != 3 || !g.List[1].Quoted {
				fail(g.Pos, "(also \"why it stays\" formula)")
			}
			c = Conjunct{g.List[2].String(), g.List[1].Word}
			g = g.List[2]
		}
		a.Guard, a.Conjuncts = append(a.Guard, p.expr(g, sc, Bool)), append(a.Conjuncts, c)
	}
	for _, e := range args[3:] {
		for _, u := range p.effect(e, sc) {
			if a.Changes()[u.Symbol.Name] {
				fail(e.Pos, "%s is changed twice by %s", u.Symbol.Name, a.Name)
			}
			if quantified(u.Value) {
				fail(e.Pos, "an effect may not have a quantifier: the proof would leave the decidable fragment")
			}
			a.Updates = append(a.Updates, u)
		}
	}
	p.m.Actions = append(p.m.Actions, a)
}

func quantified(e *Expr) bool {
	return len(e.Vars) > 0 || slices.ContainsFunc(e.Args, quantified)
}

// effect reads one effect: the updates of one symbol, or of both relations of a cut.
func (p *parser) effect(f *Form, sc *scope) []*Update {
	head := f.Head()
	if len(f.List) < 2 || f.List[1].Head() == "" {
		fail(f.Pos, "(%s (symbol x...) ...) is expected, not %s", head, f)
	}
	target, rest := f.List[1], f.List[2:]
	switch head {
	case "add", "del", "let":
		s := p.m.Symbol(target.Head())
		if s == nil || s.Fixed {
			fail(f.Pos, "%s is no part of the state", target.Head())
		}
		if s.Cut != nil {
			fail(f.Pos, "%s changes with the cut %s only", s.Name, s.Cut.Name)
		}
		if s.Result != Bool && head != "let" {
			fail(f.Pos, "%s is a function: let gives it a value", s.Name)
		}
		return []*Update{p.point(f, head, s, target.List[1:], rest, sc)}
	case "put", "raise", "copy", "join":
		c := p.cuts[target.Head()]
		if c == nil {
			fail(f.Pos, "%s is no cut", target.Head())
		}
		if len(rest) != 1 {
			fail(f.Pos, "(%s ...) needs two parts", head)
		}
		return []*Update{p.cut(f, head, c, c.Reached, target.List[1:], rest[0], sc),
			p.cut(f, head, c, c.Passed, target.List[1:], rest[0], sc)}
	}
	fail(f.Pos, "%q is no effect", head)
	return nil
}

// place reads the arguments of a target. They are the variables of its update, what these have to
// be equal to, and what is bound for the rest of the effect.
func (p *parser) place(f *Form, args []*Form, sorts []*Sort, sc *scope) (vars []Var, at []*Expr, in *scope) {
	if len(args) != len(sorts) {
		fail(f.Pos, "%d arguments are expected, not %d", len(sorts), len(args))
	}
	in = sc.with(nil)
	for i, x := range args {
		v := Var{"!" + itoa(i), sorts[i]}
		if star, is := strings.CutPrefix(x.Word, "*"); is {
			if star != "" {
				if s := p.variable(star); s != sorts[i] || sc.find(star) != nil ||
					slices.ContainsFunc(vars, func(v Var) bool { return v.Name == star }) {
					fail(x.Pos, "%s is no new variable of the sort %s", x, sorts[i].Name)
				}
				v.Name = star
			}
			vars = append(vars, v)
			in.bound[v.Name] = v.Sort
			continue
		}
		vars = append(vars, v)
		at = append(at, &Expr{Pos: x.Pos, Op: OpEqual, Sort: Bool,
			Args: []*Expr{variable(x.Pos, v), p.expr(x, sc, sorts[i].Name)}})
	}
	return vars, at, in
}

func variable(at Pos, v Var) *Expr { return &Expr{Pos: at, Op: OpVar, Name: v.Name, Sort: v.Sort.Name} }

func formula(at Pos, op Op, args ...*Expr) *Expr {
	return &Expr{Pos: at, Op: op, Args: args, Sort: Bool}
}

// point reads add, del and let.
func (p *parser) point(f *Form, head string, s *Symbol, args, rest []*Form, sc *scope) *Update {
	vars, at, in := p.place(f, args, s.Args, sc)
	before := &Expr{Pos: f.Pos, Op: OpApply, Symbol: s, Sort: s.Result}
	for _, v := range vars {
		before.Args = append(before.Args, variable(f.Pos, v))
	}
	if len(rest) > 1 || head == "let" && len(rest) != 1 {
		fail(f.Pos, "(%s ...) has %d parts too many or too few", head, len(rest))
	}
	u := &Update{Pos: f.Pos, Symbol: s, Vars: vars}
	if head == "let" {
		u.Value = &Expr{Pos: f.Pos, Op: OpIte, Sort: s.Result,
			Args: []*Expr{formula(f.Pos, OpAnd, at...), p.expr(rest[0], in, s.Result), before}}
		return u
	}
	if len(rest) == 1 {
		at = append(at, p.expr(rest[0], in, Bool))
	}
	here := formula(f.Pos, OpAnd, at...)
	if head == "add" {
		u.Value = formula(f.Pos, OpOr, before, here)
	} else {
		u.Value = formula(f.Pos, OpAnd, before, formula(f.Pos, OpNot, here))
	}
	return u
}

// cut reads put, raise, copy and join, for one of the two relations of a cut.
func (p *parser) cut(f *Form, head string, c *Cut, s *Symbol, args []*Form, by *Form, sc *scope) *Update {
	last := len(s.Args) - 1
	vars, at, in := p.place(f, args, s.Args[:last], sc)
	x := Var{"!" + itoa(last), s.Args[last]}
	vars = append(vars, x)
	before := &Expr{Pos: f.Pos, Op: OpApply, Symbol: s, Sort: Bool}
	for _, v := range vars {
		before.Args = append(before.Args, variable(f.Pos, v))
	}
	var value *Expr
	if head == "put" || head == "raise" {
		number, le := p.expr(by, in, x.Sort.Name), x.Sort.Order
		value = &Expr{Pos: f.Pos, Op: OpApply, Symbol: le, Sort: Bool, Args: []*Expr{variable(f.Pos, x), number}}
		if s == c.Passed {
			value = formula(f.Pos, OpNot, &Expr{Pos: f.Pos, Op: OpApply, Symbol: le, Sort: Bool,
				Args: []*Expr{number, variable(f.Pos, x)}})
		}
	} else {
		other := p.cuts[by.Head()]
		if other == nil {
			fail(by.Pos, "%s is no cut", by)
		}
		from := other.Reached
		if s == c.Passed {
			from = other.Passed
		}
		if len(by.List) != len(from.Args) || from.Args[len(from.Args)-1] != x.Sort {
			fail(by.Pos, "%s has other arguments", by)
		}
		value = &Expr{Pos: f.Pos, Op: OpApply, Symbol: from, Sort: Bool}
		for i, y := range by.List[1:] {
			value.Args = append(value.Args, p.expr(y, in, from.Args[i].Name))
		}
		value.Args = append(value.Args, variable(f.Pos, x))
	}
	if head == "raise" || head == "join" {
		value = formula(f.Pos, OpOr, before, value)
	}
	return &Update{Pos: f.Pos, Symbol: s, Vars: vars,
		Value: formula(f.Pos, OpIte, formula(f.Pos, OpAnd, at...), value, before)}
}
