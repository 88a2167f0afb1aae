package model

import "slices"

// Bool is the sort of formulas.
const Bool = "Bool"

// A Model is a transition system: what never changes, a state, and the actions that change it.
// Nothing of it may be changed after Parse.
type Model struct {
	File       string
	Sorts      []*Sort
	Symbols    []*Symbol // in the order in which they were declared
	Axioms     []*Named
	Init       []*Expr // free variables are bound by a forall
	Actions    []*Action
	Invariants []*Named // promises and lemmas

	forms []*Form
	p     *parser // knows what is declared
}

// Sort is a sort of values.
type Sort struct {
	Pos     Pos
	Name    string
	Letters []string // of its variables
	Order   *Symbol  // nil: no order
	Least   *Symbol  // of the order
	Member  *Symbol  // not nil: a value is a set of values of Of
	Of      *Sort
	Size    string // of the sets in an instance of few nodes: "q", "q-1" or "n-q+1"
}

// Symbol is a relation (Result is Bool) or a function.
type Symbol struct {
	Pos    Pos
	Name   string
	Args   []*Sort
	Result string
	Fixed  bool // never changes
	Cut    *Cut // not nil: one of the two relations of a cut
}

// Cut is a number for each tuple of values, as two relations: Reached is "<=", Passed is "<". The
// last argument of both is the number.
type Cut struct {
	Name            string
	Reached, Passed *Symbol
}

// Named is a formula with a name. Free variables are bound by a forall.
type Named struct {
	Pos     Pos
	Name    string
	Formula *Expr
	Promise bool // what users rely on, not only a reason for it
}

// Action is one kind of step. It can be taken with values of the parameters for which every formula
// of the guard holds. Then all updates are carried out at once: each reads the state before the
// step.
type Action struct {
	Pos       Pos
	Name      string
	Params    []Var
	Guard     []*Expr
	Conjuncts []Conjunct // of the guard
	Updates   []*Update  // at most one for each symbol; what has none keeps its value
}

// Conjunct is how a part of a guard is written.
type Conjunct struct {
	Text string
	Also string // not empty: why it is there although everything is proved without it
}

// Update says what a symbol is after an action: Symbol(Vars) is Value, for all values of Vars.
// Parameters of the action and Vars are free in Value.
type Update struct {
	Pos    Pos
	Symbol *Symbol
	Vars   []Var
	Value  *Expr
}

// Var is a variable.
type Var struct {
	Name string
	Sort *Sort
}

// Op is what an Expr is made by.
type Op uint8

// The operators. Definitions are expanded.
const (
	OpVar    Op = iota // Name: a variable, or an element of an instance
	OpApply            // Symbol, of Args
	OpTrue             // a formula
	OpFalse            // a formula
	OpNot              // of one
	OpAnd              // of any number
	OpOr               // of any number
	OpImply            // the first implies the second
	OpEqual            // of two of one sort, which may be formulas
	OpIte              // if the first then the second else the third
	OpForall           // Args[0] for all values of Vars
	OpExists           // Args[0] for values of Vars
)

// Expr is a formula (Sort is Bool) or a term.
type Expr struct {
	Pos    Pos
	Op     Op
	Name   string
	Symbol *Symbol
	Args   []*Expr
	Vars   []Var
	Sort   string
}

// SortOf returns the sort with a name, or nil.
func (m *Model) SortOf(name string) *Sort {
	return find(m.Sorts, func(s *Sort) bool { return s.Name == name })
}

// Symbol returns the symbol with a name, or nil.
func (m *Model) Symbol(name string) *Symbol {
	return find(m.Symbols, func(s *Symbol) bool { return s.Name == name })
}

// Action returns the action with a name, or nil.
func (m *Model) Action(name string) *Action {
	return find(m.Actions, func(a *Action) bool { return a.Name == name })
}

// Invariant returns the promise or lemma with a name, or nil.
func (m *Model) Invariant(name string) *Named {
	return find(m.Invariants, func(n *Named) bool { return n.Name == name })
}

func find[T any](all []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return nil
}

// Changes returns the names of the symbols that an action changes.
func (a *Action) Changes() map[string]bool {
	changed := map[string]bool{}
	for _, u := range a.Updates {
		changed[u.Symbol.Name] = true
	}
	return changed
}

// Uses reports whether one of these symbols occurs in the expression.
func (e *Expr) Uses(symbols map[string]bool) bool {
	return e.Op == OpApply && symbols[e.Symbol.Name] ||
		slices.ContainsFunc(e.Args, func(x *Expr) bool { return x.Uses(symbols) })
}

// parser builds a model. It panics with an *Error, which build returns.
type parser struct {
	m       *Model
	letters map[string]*Sort
	cuts    map[string]*Cut
	defs    map[string]*definition
	names   map[string]Pos // of everything that has a name
	fresh   int            // bound variables that were renamed
}

type definition struct {
	params []Var
	body   *Expr
}
