package model

import (
	"maps"
	"slices"
)

// scope has the variables that are bound where an expression stands.
type scope struct {
	bound map[string]*Sort
	free  *[]Var // not nil: a free variable stands for all values, and is noted here
	outer *scope
}

func newScope(vars []Var) *scope { return (&scope{}).with(vars) }

func (sc *scope) with(vars []Var) *scope {
	in := &scope{bound: map[string]*Sort{}, free: sc.free, outer: sc}
	for _, v := range vars {
		in.bound[v.Name] = v.Sort
	}
	return in
}

func (sc *scope) find(name string) *Sort {
	for ; sc != nil; sc = sc.outer {
		if s := sc.bound[name]; s != nil {
			return s
		}
	}
	return nil
}

// closed reads a formula whose free variables stand for all values.
func (p *parser) closed(f *Form) *Expr {
	var free []Var
	e := p.expr(f, &scope{free: &free}, Bool)
	return closeOver(free, e)
}

func closeOver(free []Var, e *Expr) *Expr {
	if len(free) == 0 {
		return e
	}
	return &Expr{Pos: e.Pos, Op: OpForall, Vars: free, Args: []*Expr{e}, Sort: Bool}
}

// expr reads an expression that has to be of a sort.
func (p *parser) expr(f *Form, sc *scope, want string) *Expr {
	e := p.any(f, sc)
	if e.Sort != want {
		fail(f.Pos, "%s is of the sort %s, and has to be of %s", f, e.Sort, want)
	}
	return e
}

func (p *parser) any(f *Form, sc *scope) *Expr {
	if f.Quoted {
		fail(f.Pos, "%s is a text, no formula", f)
	}
	if !f.IsList() {
		return p.word(f, sc)
	}
	if f.Head() == "" {
		fail(f.Pos, "%s is no formula", f)
	}
	args := f.List[1:]
	out := &Expr{Pos: f.Pos, Sort: Bool}
	op := func(op Op) *Expr {
		out.Op = op
		for _, x := range args {
			out.Args = append(out.Args, p.expr(x, sc, Bool))
		}
		return out
	}
	switch head := f.Head(); head {
	case "and":
		return op(OpAnd)
	case "or":
		return op(OpOr)
	case "not":
		p.only(f, args, 1)
		return op(OpNot)
	case "=>":
		p.only(f, args, 2)
		return op(OpImply)
	case "=":
		p.only(f, args, 2)
		out.Op = OpEqual
		a := p.any(args[0], sc)
		out.Args = []*Expr{a, p.expr(args[1], sc, a.Sort)}
		return out
	case "ite":
		p.only(f, args, 3)
		out.Op = OpIte
		a := p.any(args[1], sc)
		out.Args = []*Expr{p.expr(args[0], sc, Bool), a, p.expr(args[2], sc, a.Sort)}
		out.Sort = a.Sort
		return out
	case "forall", "exists":
		p.only(f, args, 2)
		out.Op = OpForall
		if head == "exists" {
			out.Op = OpExists
		}
		if !args[0].IsList() || len(args[0].List) == 0 {
			fail(f.Pos, "(%s (x...) formula)", head)
		}
		out.Vars = p.params(args[0].List)
		for _, v := range out.Vars {
			if sc.find(v.Name) != nil || sc.free != nil && slices.Contains(*sc.free, v) {
				fail(f.Pos, "%s is bound already: take another letter", v.Name)
			}
		}
		in := sc.with(out.Vars)
		out.Args = []*Expr{p.expr(args[1], in, Bool)}
		return out
	default:
		return p.apply(f, head, args, sc)
	}
}

// word reads a single word: a variable, a constant or a truth.
func (p *parser) word(f *Form, sc *scope) *Expr {
	switch f.Word {
	case "true":
		return &Expr{Pos: f.Pos, Op: OpTrue, Sort: Bool}
	case "false":
		return &Expr{Pos: f.Pos, Op: OpFalse, Sort: Bool}
	}
	if s := sc.find(f.Word); s != nil {
		return &Expr{Pos: f.Pos, Op: OpVar, Name: f.Word, Sort: s.Name}
	}
	if s := p.variable(f.Word); s != nil {
		if sc.free == nil {
			fail(f.Pos, "%s is bound by nothing", f)
		}
		if v := (Var{f.Word, s}); !slices.Contains(*sc.free, v) {
			*sc.free = append(*sc.free, v)
		}
		return &Expr{Pos: f.Pos, Op: OpVar, Name: f.Word, Sort: s.Name}
	}
	return p.apply(f, f.Word, nil, sc)
}

// apply reads a relation, a function or a definition with its arguments.
func (p *parser) apply(f *Form, name string, args []*Form, sc *scope) *Expr {
	if d := p.defs[name]; d != nil {
		if len(args) != len(d.params) {
			fail(f.Pos, "%s has %d arguments, not %d", name, len(d.params), len(args))
		}
		by := map[string]*Expr{}
		for i, v := range d.params {
			by[v.Name] = p.expr(args[i], sc, v.Sort.Name)
		}
		return p.expand(d.body, by)
	}
	s := p.m.Symbol(name)
	if s == nil {
		fail(f.Pos, "%s is not declared", name)
	}
	if len(args) != len(s.Args) {
		fail(f.Pos, "%s has %d arguments, not %d", name, len(s.Args), len(args))
	}
	out := &Expr{Pos: f.Pos, Op: OpApply, Symbol: s, Sort: s.Result}
	for i, x := range args {
		out.Args = append(out.Args, p.expr(x, sc, s.Args[i].Name))
	}
	return out
}

// expand returns the body of a definition with arguments. What the body binds gets new names, so
// that it binds nothing of the arguments.
func (p *parser) expand(e *Expr, by map[string]*Expr) *Expr {
	if e.Op == OpVar {
		if x := by[e.Name]; x != nil {
			return x
		}
		return e
	}
	out := *e
	if len(e.Vars) > 0 {
		inner := maps.Clone(by)
		out.Vars = nil
		for _, v := range e.Vars {
			p.fresh++
			renamed := Var{v.Name + "!" + itoa(p.fresh), v.Sort}
			out.Vars = append(out.Vars, renamed)
			inner[v.Name] = &Expr{Pos: e.Pos, Op: OpVar, Name: renamed.Name, Sort: v.Sort.Name}
		}
		by = inner
	}
	out.Args = nil
	for _, x := range e.Args {
		out.Args = append(out.Args, p.expand(x, by))
	}
	return &out
}
