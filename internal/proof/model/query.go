package model

import (
	"fmt"
	"strings"
)

// A Goal is one question: is there a state of Group's Given in which Text holds too? It is proved
// if there is none.
type Goal struct {
	Invariant *Named
	Text      string
}

// Group is what several goals have in common: the initial state, or an action that is carried out
// where all invariants hold.
type Group struct {
	Name  string // "init", or the action's
	Given string
	Goals []Goal
}

// Initially returns the group of the initial state.
func (m *Model) Initially() Group {
	g := Group{Name: "init"}
	var b strings.Builder
	m.declare(&b)
	for _, f := range m.Init {
		fmt.Fprintf(&b, "(assert %s)\n", text(f, nil))
	}
	g.Given = b.String()
	for _, n := range m.Invariants {
		g.Goals = append(g.Goals, Goal{n, fmt.Sprintf("(assert (not %s))", text(n.Formula, nil))})
	}
	return g
}

// Step returns the group of an action: it keeps every invariant. Invariants that speak of nothing
// that it changes are left out.
func (m *Model) Step(a *Action) Group {
	g := Group{Name: a.Name}
	var b strings.Builder
	m.declare(&b)
	for _, n := range m.Invariants {
		fmt.Fprintf(&b, "(assert %s)\n", text(n.Formula, nil))
	}
	for _, v := range a.Params {
		fmt.Fprintf(&b, "(declare-const %s %s)\n", v.Name, v.Sort.Name)
	}
	for _, f := range a.Guard {
		fmt.Fprintf(&b, "(assert %s)\n", text(f, nil))
	}
	for _, u := range a.Updates {
		fmt.Fprintf(&b, "(define-fun %s+ (%s) %s %s)\n", u.Symbol.Name, binding(u.Vars), u.Symbol.Result, text(u.Value, nil))
	}
	g.Given = b.String()
	changed := a.Changes()
	for _, n := range m.Invariants {
		if n.Formula.Uses(changed) {
			g.Goals = append(g.Goals, Goal{n, fmt.Sprintf("(assert (not %s))", text(n.Formula, changed))})
		}
	}
	return g
}

// declare writes sorts, symbols, orders and axioms.
func (m *Model) declare(b *strings.Builder) {
	for _, s := range m.Sorts {
		fmt.Fprintf(b, "(declare-sort %s 0)\n", s.Name)
	}
	for _, s := range m.Symbols {
		var args []string
		for _, a := range s.Args {
			args = append(args, a.Name)
		}
		fmt.Fprintf(b, "(declare-fun %s (%s) %s)\n", s.Name, strings.Join(args, " "), s.Result)
	}
	for _, s := range m.Sorts {
		if s.Order == nil {
			continue
		}
		for _, f := range []string{"(LE a a)", "(=> (and (LE a b) (LE b a)) (= a b))",
			"(=> (and (LE a b) (LE b c)) (LE a c))", "(or (LE a b) (LE b a))", "(LE " + s.Least.Name + " a)"} {
			fmt.Fprintf(b, "(assert (forall ((a %[1]s) (b %[1]s) (c %[1]s)) %[2]s))\n", s.Name,
				strings.ReplaceAll(f, "LE", s.Order.Name))
		}
	}
	for _, n := range m.Axioms {
		fmt.Fprintf(b, "(assert %s)\n", text(n.Formula, nil))
	}
}

func binding(vars []Var) string {
	var out []string
	for _, v := range vars {
		out = append(out, "("+v.Name+" "+v.Sort.Name+")")
	}
	return strings.Join(out, " ")
}

var operators = map[Op]string{OpNot: "not", OpAnd: "and", OpOr: "or", OpImply: "=>", OpEqual: "=", OpIte: "ite",
	OpTrue: "true", OpFalse: "false"}

// text returns an expression for a solver, with a plus sign behind each symbol that has changed.
func text(e *Expr, changed map[string]bool) string {
	args := func(name string) string {
		if len(e.Args) == 0 {
			return name
		}
		parts := []string{name}
		for _, x := range e.Args {
			parts = append(parts, text(x, changed))
		}
		return "(" + strings.Join(parts, " ") + ")"
	}
	switch e.Op {
	case OpVar:
		return e.Name
	case OpApply:
		if changed[e.Symbol.Name] {
			return args(e.Symbol.Name + "+")
		}
		return args(e.Symbol.Name)
	case OpForall:
		return "(forall (" + binding(e.Vars) + ") " + text(e.Args[0], changed) + ")"
	case OpExists:
		return "(exists (" + binding(e.Vars) + ") " + text(e.Args[0], changed) + ")"
	case OpAnd, OpOr:
		switch len(e.Args) {
		case 0:
			return map[Op]string{OpAnd: "true", OpOr: "false"}[e.Op]
		case 1:
			return text(e.Args[0], changed)
		}
	}
	return args(operators[e.Op])
}
