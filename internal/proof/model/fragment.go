package model

import (
	"fmt"
	"slices"
	"strings"
)

// arrow says that a query asks for a value of one sort for each value of another one.
type arrow struct{ from, to string }

// Fragment returns an *Error unless every query about the model is decidable. It is if the arrows
// of its functions and of its quantifiers have no circle. Then finitely many values are enough to
// look at (Padon et al., "Paxos made EPR", OOPSLA 2017).
func (m *Model) Fragment() error {
	found := map[arrow]Pos{}
	note := func(a arrow, at Pos) {
		if _, is := found[a]; !is {
			found[a] = at
		}
	}
	for _, s := range m.Symbols {
		for _, a := range s.Args {
			if s.Result != Bool {
				note(arrow{a.Name, s.Result}, s.Pos)
			}
		}
	}
	for _, n := range m.Axioms {
		n.Formula.arrows(true, nil, note)
	}
	for _, f := range m.Init {
		f.arrows(true, nil, note)
	}
	for _, n := range m.Invariants { // what is given, and what is to be proved
		n.Formula.arrows(true, nil, note)
		n.Formula.arrows(false, nil, note)
	}
	for _, a := range m.Actions {
		for _, g := range a.Guard {
			g.arrows(true, nil, note)
		}
	}
	for _, s := range m.Sorts {
		if path := circle(found, s.Name); path != nil {
			var parts []string
			for _, a := range path {
				parts = append(parts, fmt.Sprintf("%s -> %s at %s", a.from, a.to, found[a]))
			}
			return &Error{found[path[0]], "not in the decidable fragment, for each value of a sort another one is asked for in a circle: " + strings.Join(parts, ", ")}
		}
	}
	return nil
}

// circle returns a shortest way from a sort back to itself, or nil.
func circle(arrows map[arrow]Pos, start string) []arrow {
	ways := map[string][]arrow{start: nil}
	for frontier := []string{start}; len(frontier) > 0; {
		var next []string
		for _, at := range frontier {
			for a := range arrows {
				if a.from != at {
					continue
				}
				way := append(slices.Clone(ways[at]), a)
				if a.to == start {
					return way
				}
				if _, is := ways[a.to]; !is {
					ways[a.to] = way
					next = append(next, a.to)
				}
			}
		}
		frontier = next
	}
	return nil
}

// arrows notes from each sort that is bound for all values to each that is bound below it for some.
func (e *Expr) arrows(positive bool, over []string, note func(arrow, Pos)) {
	both := func(x *Expr) {
		x.arrows(true, over, note)
		x.arrows(false, over, note)
	}
	switch e.Op {
	case OpForall, OpExists:
		if (e.Op == OpExists) == positive {
			for _, a := range over {
				for _, v := range e.Vars {
					note(arrow{a, v.Sort.Name}, e.Pos)
				}
			}
		} else {
			over = slices.Clone(over)
			for _, v := range e.Vars {
				over = append(over, v.Sort.Name)
			}
		}
		e.Args[0].arrows(positive, over, note)
	case OpNot:
		e.Args[0].arrows(!positive, over, note)
	case OpImply:
		e.Args[0].arrows(!positive, over, note)
		e.Args[1].arrows(positive, over, note)
	case OpIte:
		both(e.Args[0])
		e.Args[1].arrows(positive, over, note)
		e.Args[2].arrows(positive, over, note)
	case OpEqual:
		both(e.Args[0])
		both(e.Args[1])
	default:
		for _, x := range e.Args {
			x.arrows(positive, over, note)
		}
	}
}
