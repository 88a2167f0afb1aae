package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Parse reads a model. An error is an *Error: it says in which line.
func Parse(file, text string) (*Model, error) {
	forms, err := ReadForms(file, text)
	if err != nil {
		return nil, err
	}
	return build(file, forms)
}

var words = []string{"and", "or", "not", "=>", "=", "ite", "true", "false", "forall", "exists", "_", "*", Bool}

func fail(at Pos, format string, args ...any) {
	panic(&Error{at, fmt.Sprintf(format, args...)})
}

func build(file string, forms []*Form) (m *Model, err error) {
	defer func() {
		if e := recovered(recover()); e != nil {
			m, err = nil, e
		}
	}()
	return newModel(file, forms), nil
}

// newModel builds a model. It panics with an *Error.
func newModel(file string, forms []*Form) *Model {
	p := &parser{m: &Model{File: file}, letters: map[string]*Sort{}, cuts: map[string]*Cut{},
		defs: map[string]*definition{}, names: map[string]Pos{}}
	p.m.p = p
	for _, f := range forms {
		p.form(f)
	}
	p.complete()
	return p.m
}

// recovered returns what fail said, and nil if nothing was said.
func recovered(said any) error {
	if said == nil {
		return nil
	}
	if e, is := said.(*Error); is {
		return e
	}
	panic(said)
}

// form reads one declaration.
func (p *parser) form(f *Form) {
	p.m.forms = append(p.m.forms, f)
	if f.Head() == "" {
		fail(f.Pos, "a declaration is a list that begins with a word, not %s", f)
	}
	args := f.List[1:]
	atLeast := func(n int, what string) {
		if len(args) < n {
			fail(f.Pos, "(%s ...) needs %s", f.Head(), what)
		}
	}
	switch head := f.Head(); head {
	case "sort":
		atLeast(2, "a name and the letters of its variables")
		s := &Sort{Pos: f.Pos, Name: p.name(args[0])}
		for _, l := range args[1:] {
			if len(l.Word) != 1 || l.Word[0] < 'A' || l.Word[0] > 'z' || p.letters[l.Word] != nil {
				fail(l.Pos, "%s is no letter, or one of another sort", l)
			}
			p.letters[l.Word] = s
			s.Letters = append(s.Letters, l.Word)
		}
		p.m.Sorts = append(p.m.Sorts, s)
	case "order":
		atLeast(3, "a relation, a sort and its least element")
		s := p.sort(args[1])
		if s.Order != nil {
			fail(f.Pos, "%s has an order already", s.Name)
		}
		s.Order = p.symbol(args[0], []*Sort{s, s}, Bool, true)
		s.Least = p.symbol(args[2], nil, s.Name, true)
	case "family":
		atLeast(4, "a sort, its membership, a sort and a size")
		s, of := p.sort(args[0]), p.sort(args[2])
		if s.Size = args[3].Word; s.Size != "q" && s.Size != "n-q+1" && s.Size != "q-1" || s.Member != nil {
			fail(args[3].Pos, "a family has one size, q, q-1 or n-q+1, not %s", args[3])
		}
		s.Member, s.Of = p.symbol(args[1], []*Sort{of, s}, Bool, true), of
	case "fixed", "rel":
		atLeast(1, "a name")
		p.symbol(args[0], p.sorts(args[1:]), Bool, head == "fixed")
	case "fixed-fun", "fun":
		atLeast(2, "a name and sorts, the last of which is that of its value")
		all := p.sorts(args[1:])
		p.symbol(args[0], all[:len(all)-1], all[len(all)-1].Name, head == "fixed-fun")
	case "cut":
		atLeast(4, "a name, two relations and sorts, the last of which is that of the number")
		all := p.sorts(args[3:])
		if all[len(all)-1].Order == nil {
			fail(f.Pos, "%s has no order", all[len(all)-1].Name)
		}
		c := &Cut{p.name(args[0]), p.symbol(args[1], all, Bool, false), p.symbol(args[2], all, Bool, false)}
		c.Reached.Cut, c.Passed.Cut = c, c
		p.cuts[c.Name] = c
	case "axiom", "promise", "lemma":
		atLeast(2, "a name and a formula")
		n := &Named{Pos: f.Pos, Name: p.name(args[0]), Formula: p.closed(p.only(f, args, 2)[1]), Promise: head == "promise"}
		if head == "axiom" {
			if n.Formula.Uses(p.changing()) {
				fail(f.Pos, "the axiom %s speaks of the state", n.Name)
			}
			p.m.Axioms = append(p.m.Axioms, n)
		} else {
			p.m.Invariants = append(p.m.Invariants, n)
		}
	case "init":
		for _, x := range args {
			p.m.Init = append(p.m.Init, p.closed(x))
		}
	case "define":
		p.only(f, args, 2)
		if args[0].Head() == "" {
			fail(f.Pos, "(define (name x...) formula)")
		}
		params := p.params(args[0].List[1:])
		sc := newScope(params)
		p.defs[p.name(args[0].List[0])] = &definition{params, p.expr(args[1], sc, Bool)}
	case "action":
		p.action(f, args)
	default:
		fail(f.Pos, "%q is no declaration", head)
	}
}

func (p *parser) only(f *Form, args []*Form, n int) []*Form {
	if len(args) != n {
		fail(f.Pos, "(%s ...) needs %d parts and has %d", f.Head(), n, len(args))
	}
	return args
}

// name returns the name that a form declares.
func (p *parser) name(f *Form) string {
	if f.IsList() || f.Quoted || strings.HasPrefix(f.Word, "*") {
		fail(f.Pos, "%s is no name", f)
	}
	if slices.Contains(words, f.Word) || p.variable(f.Word) != nil {
		fail(f.Pos, "%s cannot be a name: it is a word of the language, or reads like a variable", f)
	}
	if at, taken := p.names[f.Word]; taken {
		fail(f.Pos, "%s is declared already, at %s", f.Word, at)
	}
	p.names[f.Word] = f.Pos
	return f.Word
}

func (p *parser) sort(f *Form) *Sort {
	s := p.m.SortOf(f.Word)
	if s == nil {
		fail(f.Pos, "%s is no sort", f)
	}
	return s
}

func (p *parser) sorts(fs []*Form) []*Sort {
	var all []*Sort
	for _, f := range fs {
		all = append(all, p.sort(f))
	}
	return all
}

func (p *parser) symbol(f *Form, args []*Sort, result string, fixed bool) *Symbol {
	s := &Symbol{Pos: f.Pos, Name: p.name(f), Args: args, Result: result, Fixed: fixed}
	p.m.Symbols = append(p.m.Symbols, s)
	return s
}

// variable returns the sort of a variable: a letter, digits may follow it. Nil: it is none.
func (p *parser) variable(word string) *Sort {
	if word == "" || strings.Trim(word[1:], "0123456789") != "" {
		return nil
	}
	return p.letters[word[:1]]
}

func (p *parser) params(fs []*Form) []Var {
	var all []Var
	for _, f := range fs {
		s := p.variable(f.Word)
		if s == nil {
			fail(f.Pos, "%s is no variable of any sort", f)
		}
		if slices.ContainsFunc(all, func(v Var) bool { return v.Name == f.Word }) {
			fail(f.Pos, "%s is there twice", f)
		}
		all = append(all, Var{f.Word, s})
	}
	return all
}

func (p *parser) changing() map[string]bool {
	all := map[string]bool{}
	for _, s := range p.m.Symbols {
		if !s.Fixed {
			all[s.Name] = true
		}
	}
	return all
}

// complete checks what only the whole model shows.
func (p *parser) complete() {
	changed := map[string]bool{}
	for _, a := range p.m.Actions {
		maps.Copy(changed, a.Changes())
	}
	if len(p.m.Actions) == 0 || len(p.m.Invariants) == 0 {
		fail(Pos{p.m.File, 1}, "a model needs an action and an invariant: of this one nothing can be proved")
	}
	for _, s := range p.m.Symbols {
		if !s.Fixed && !changed[s.Name] {
			fail(s.Pos, "no action changes %s", s.Name)
		}
	}
}
