package trace

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fenlock/fenlock/internal/proof/model"
	"github.com/fenlock/fenlock/proof"
)

// A Machine carries out the actions of a model on concrete states. It knows what guards rest on:
// the symbols that guards read, and those that decide these. The others are history that only a
// proof needs; they are not kept. It may be used by several goroutines, each with a State of its
// own.
type Machine struct {
	Model   *model.Model
	symbols []*symbol
	bySym   map[*model.Symbol]*symbol
	actions map[string]*Action
}

var ofFiles sync.Map // func() *Machine

// Of returns the machine of a file of package proof, such as tokens.model. It is made once. It
// panics if the file is not there or is no model.
func Of(file string) *Machine {
	of, _ := ofFiles.LoadOrStore(file, sync.OnceValue(func() *Machine {
		text, err := proof.Files.ReadFile(file)
		if err != nil {
			panic(err)
		}
		m, err := model.Parse(file, string(text))
		if err != nil {
			panic(err)
		}
		mc, err := New(m)
		if err != nil {
			panic(err)
		}
		return mc
	}))
	return of.(func() *Machine)()
}

// Any is a value of a parameter that the machine is to find: a set of nodes for which the guard
// holds.
const Any = ^uint64(0)

// maxArgs is how many arguments a relation may have, and maxVars how many variables an action.
const (
	maxArgs = 4
	maxVars = 12
)

// key are the arguments of a symbol, without the last one of a cut or of an upward closed relation.
type key [maxArgs]uint64

// symbol is how a symbol is kept.
type symbol struct {
	*model.Symbol
	index int
	kind  kind
	keys  int // arguments in the key
}

type kind uint8

const (
	flag  kind = iota // a set of tuples
	above             // a number for each tuple: all from it on are in the relation. 0: none, otherwise one more
	cut               // a number for each tuple
	value             // a function
)

// Action is an action that can be carried out.
type Action struct {
	*model.Action
	guard   []formula
	uses    [][]int // by parameter that is a set of nodes: the conjuncts that read it
	updates []update
}

// update is what an action does to one symbol.
type update struct {
	what string // add, del or let
	sym  *symbol
	at   []term  // nil: any value
	slot []int   // of the argument
	cond formula // nil: always
	to   term    // of let
	// Of add and let: which arguments stand for every value, and where the values come from for
	// which it changes something.
	stars []int
	from  []source
}

// source are the tuples of a relation, or one value of the only star.
type source struct {
	is   term // not nil: the value
	rel  *symbol
	args []term // of that, nil: what is in the slot
	free []int
}

// frame is an evaluation.
type frame struct {
	s     State
	nodes uint64
	env   [maxVars]uint64
}

type (
	formula func(f *frame) bool
	term    func(f *frame) uint64
)

// New prepares a model. An error says what of it cannot be evaluated.
func New(m *model.Model) (*Machine, error) {
	mc := &Machine{Model: m, bySym: map[*model.Symbol]*symbol{}, actions: map[string]*Action{}}
	if err := mc.choose(); err != nil {
		return nil, err
	}
	for _, a := range m.Actions {
		c := &compiler{mc: mc, slots: map[string]int{}}
		act, err := c.action(a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		mc.actions[a.Name] = act
	}
	return mc, nil
}

// Ignored returns the names of the symbols that are not kept.
func (mc *Machine) Ignored() (names []string) {
	for _, s := range mc.Model.Symbols {
		if mc.bySym[s] == nil && !builtIn(mc.Model, s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Action returns the action with a name, nil if the model has none.
func (mc *Machine) Action(name string) *Action { return mc.actions[name] }

func (mc *Machine) symbol(name string) *symbol { return mc.bySym[mc.Model.Symbol(name)] }

func builtIn(m *model.Model, s *model.Symbol) bool {
	return slices.ContainsFunc(m.Sorts,
		func(of *model.Sort) bool { return s == of.Order || s == of.Least || s == of.Member })
}

// choose finds the symbols that are kept, and how.
func (mc *Machine) choose() error {
	m := mc.Model
	wanted := map[string]bool{}
	for _, a := range m.Actions {
		for _, g := range a.Guard {
			reads(g, wanted)
		}
	}
	for more := true; more; {
		before := len(wanted)
		for _, a := range m.Actions {
			for _, u := range a.Updates {
				if wanted[u.Symbol.Name] {
					reads(u.Value, wanted)
				}
			}
		}
		more = len(wanted) > before
	}
	upward := map[*model.Symbol]bool{}
	for _, a := range m.Actions {
		for _, u := range a.Updates {
			if up, is := isAbove(m, u); is {
				if had, seen := upward[u.Symbol]; seen && had != up {
					return fmt.Errorf("%s is upward closed in one action and not in another", u.Symbol.Name)
				}
				upward[u.Symbol] = up
			}
		}
	}
	cuts := map[*model.Cut]*symbol{}
	for _, s := range m.Symbols {
		if !wanted[s.Name] || builtIn(m, s) {
			continue
		}
		if len(s.Args) > maxArgs {
			return fmt.Errorf("%s has too many arguments", s.Name)
		}
		k := &symbol{Symbol: s, index: len(mc.symbols), keys: len(s.Args)}
		switch {
		case s.Cut != nil:
			if same := cuts[s.Cut]; same != nil {
				mc.bySym[s] = same
				continue
			}
			k.kind, k.Symbol = cut, s.Cut.Reached
			k.keys--
			cuts[s.Cut] = k
		case s.Result != model.Bool:
			k.kind = value
		case upward[s]:
			k.kind = above
			k.keys--
		}
		mc.bySym[s] = k
		mc.symbols = append(mc.symbols, k)
	}
	return nil
}

func reads(e *model.Expr, into map[string]bool) {
	if e.Op == model.OpApply {
		into[e.Symbol.Name] = true
		if c := e.Symbol.Cut; c != nil {
			into[c.Reached.Name], into[c.Passed.Name] = true, true
		}
	}
	for _, x := range e.Args {
		reads(x, into)
	}
}

// isAbove reports whether an update adds all numbers from one on. Is: it adds something.
func isAbove(m *model.Model, u *model.Update) (up, is bool) {
	last := len(u.Vars) - 1
	if last < 0 || u.Value.Op != model.OpOr || u.Symbol.Cut != nil {
		return false, false
	}
	here := u.Value.Args[1]
	for _, c := range here.Args {
		if le, found := threshold(m, c, u.Vars[last].Name); found {
			return le != nil, true
		}
		if c.Op != model.OpAnd {
			continue
		}
		for _, x := range c.Args {
			if _, found := threshold(m, x, u.Vars[last].Name); found {
				return true, true
			}
		}
	}
	return false, true
}

// threshold returns x of (le x y), for the variable y.
func threshold(m *model.Model, e *model.Expr, y string) (*model.Expr, bool) {
	if e.Op != model.OpApply || len(e.Args) != 2 || e.Args[1].Op != model.OpVar || e.Args[1].Name != y {
		return nil, false
	}
	for _, s := range m.Sorts {
		if s.Order == e.Symbol {
			return e.Args[0], true
		}
	}
	return nil, false
}

// Refusal is a step that the model does not allow, or that had another effect than in the model.
type Refusal struct {
	Step    string   // the action with its arguments
	Why     string   // the conjunct of the guard that is false, or what differs
	Steps   []string // before it
	Missing bool     // the model has no such action
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s: %s\nafter\n  %s", r.Step, r.Why, strings.Join(r.Steps, "\n  "))
}

// text is an action with its arguments.
func (a *Action) text(args []uint64) string {
	var b strings.Builder
	b.WriteString("(" + a.Name)
	for i, p := range a.Params {
		v := args[i]
		switch {
		case v == Any:
			b.WriteString(" _")
		case p.Sort.Member != nil:
			b.WriteString(" ")
			for n := range 64 {
				if v&(1<<n) != 0 {
					fmt.Fprintf(&b, "n%d", n+1)
				}
			}
		case p.Sort.Order != nil:
			fmt.Fprintf(&b, " %d", v)
		case p.Sort.Name == "node":
			fmt.Fprintf(&b, " n%d", v+1)
		default:
			fmt.Fprintf(&b, " %s%d", p.Sort.Letters[0], v)
		}
	}
	return b.String() + ")"
}

// Step carries out an action on a state of so many nodes. It returns why not, "" if it did.
func (a *Action) Step(s State, nodes int, args ...uint64) (why string) {
	f := frame{s: s, nodes: uint64(nodes)}
	copy(f.env[:], args)
	for i, p := range a.Params {
		if p.Sort.Member != nil && args[i] == Any {
			if why := a.find(&f, i, p.Sort.Size); why != "" {
				return why
			}
		}
	}
	for i, g := range a.guard {
		if !g(&f) {
			return "the guard is false: " + a.Conjuncts[i].Text
		}
	}
	var room [8]write
	writes := room[:0]
	for i := range a.updates {
		writes = a.updates[i].writes(&f, writes)
	}
	for _, w := range writes {
		s.set(w.sym, w.key, w.value)
	}
	return ""
}

type write struct {
	sym   *symbol
	key   key
	value uint64
}

// find sets a parameter that is a set of nodes to one for which the guard holds.
func (a *Action) find(f *frame, param int, size string) (why string) {
	need := int(f.nodes)/2 + 1
	if size != "q" {
		need = int(f.nodes) - need + 1
	}
	all, count := uint64(0), 0
	for n := range f.nodes {
		f.env[param] = 1 << n
		fits := true
		for _, i := range a.uses[param] {
			fits = fits && a.guard[i](f)
		}
		if fits && count < need {
			all, count = all|1<<n, count+1
		}
	}
	if count < need {
		for _, i := range a.uses[param] {
			why += " " + a.Conjuncts[i].Text
		}
		return fmt.Sprintf("the guard is false for every %s: only %d of %d nodes (%b) satisfy%s", a.Params[param].Sort.Name,
			count, need, all, why)
	}
	f.env[param] = all
	return ""
}

// writes appends what an update changes. It reads the state before the step.
func (u *update) writes(f *frame, writes []write) []write {
	var k key
	stars := false
	for i, t := range u.at {
		if t != nil {
			k[i] = t(f)
			f.env[u.slot[i]] = k[i] // the effect may speak of it
		} else {
			stars = true
		}
	}
	switch {
	case !stars:
		return u.write(f, k, writes)
	case u.what == "del":
		f.s.each(u.sym, func(at key, _ uint64) bool {
			for i, t := range u.at {
				if t != nil && at[i] != k[i] {
					return true
				}
				if t == nil {
					f.env[u.slot[i]] = at[i]
				}
			}
			if u.cond == nil || u.cond(f) {
				writes = append(writes, write{u.sym, at, 0})
			}
			return true
		})
		return writes
	}
	if u.what == "let" { // what is there is so no more, unless it is among the values
		f.s.each(u.sym, func(at key, _ uint64) bool {
			for i, t := range u.at {
				if t != nil && at[i] != k[i] {
					return true
				}
			}
			f.env[u.slot[u.stars[0]]] = at[u.stars[0]]
			writes = u.write(f, at, writes)
			return true
		})
	}
	for i := range u.from {
		s := &u.from[i]
		if s.is != nil {
			x := s.is(f)
			k[u.stars[0]], f.env[u.slot[u.stars[0]]] = x, x
			writes = u.write(f, k, writes)
			continue
		}
		f.s.each(s.rel, func(at key, _ uint64) bool {
			for i, t := range s.args {
				if t != nil && t(f) != at[i] {
					return true
				}
				if t == nil {
					f.env[s.free[i]] = at[i]
				}
			}
			here := k
			for _, i := range u.stars {
				here[i] = f.env[u.slot[i]]
			}
			writes = u.write(f, here, writes)
			return true
		})
	}
	return writes
}

// write appends what changes at one place.
func (u *update) write(f *frame, k key, writes []write) []write {
	if u.what == "let" {
		if v := u.to(f); len(u.stars) == 0 || v != f.s.get(u.sym, k) {
			writes = append(writes, write{u.sym, k, v})
		}
		return writes
	}
	if u.cond != nil && !u.cond(f) {
		return writes
	}
	if u.what != "add" || u.sym.kind != above {
		return append(writes, write{u.sym, k, b2i(u.what == "add")})
	}
	if had, at := f.s.get(u.sym, k), u.to(f)+1; had == 0 || had > at {
		writes = append(writes, write{u.sym, k, at})
	}
	return writes
}

func b2i(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
