package model

import (
	"maps"
	"slices"
	"strconv"
)

// A Run is a list of steps from the initial state of an instance to a state that is looked for. Of
// a broken rule, it breaks a promise.
type Run struct {
	Pos     Pos
	Name    string
	Broken  bool
	Changed []string // the actions that a broken rule changes or adds
	Model   *Model   // with the change
	In      *Instance
	Steps   []Step
	Breaks  *Named // not nil: the promise that is broken at the end
	Reach   *Expr  // what holds at the end; elements of the instance are variables in it
}

// Step is one step: an action and the values of its parameters, "_" for any.
type Step struct {
	Pos    Pos
	Action *Action
	Args   []string
}

// Runs reads the runs of a model, and its broken rules:
//
//	(sizes (node 3) (holder 2)...)                for the runs that follow
//	(run "what it shows" (sizes ...) (steps (action element...)...) (reach formula))
//	(broken "the rule" (replace action old new...) (action ...) (sizes ...) (steps ...) (breaks promise))
//
// A replace has every part of an action that reads like old be new. An action in a broken rule is
// one more.
func (m *Model) Runs(file, content string) (runs []*Run, err error) {
	forms, err := ReadForms(file, content)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := recovered(recover()); e != nil {
			runs, err = nil, e
		}
	}()
	sizes := map[string]int{}
	for _, f := range forms {
		if f.Head() == "sizes" {
			sizes = m.sizes(f, map[string]int{})
			continue
		}
		runs = append(runs, m.run(f, sizes))
	}
	return runs, nil
}

func (m *Model) sizes(f *Form, before map[string]int) map[string]int {
	out := maps.Clone(before)
	for _, x := range f.List[1:] {
		if len(x.List) != 2 || m.SortOf(x.Head()) == nil {
			fail(x.Pos, "(sort number) is expected, not %s", x)
		}
		n, err := strconv.Atoi(x.List[1].Word)
		if err != nil {
			fail(x.Pos, "%s is no number", x.List[1])
		}
		out[x.Head()] = n
	}
	return out
}

func (m *Model) run(f *Form, sizes map[string]int) *Run {
	if len(f.List) < 2 || !f.List[1].Quoted || f.Head() != "run" && f.Head() != "broken" {
		fail(f.Pos, "(run \"name\" ...) or (broken \"name\" ...) is expected")
	}
	r := &Run{Pos: f.Pos, Name: f.List[1].Word, Broken: f.Head() == "broken", Model: m}
	parts := map[string]*Form{}
	var changes []*Form
	for _, part := range f.List[2:] {
		switch head := part.Head(); head {
		case "replace", "action":
			changes = append(changes, part)
		case "sizes", "steps", "reach", "breaks":
			if parts[head] != nil {
				fail(part.Pos, "%s is there twice", head)
			}
			parts[head] = part
		default:
			fail(part.Pos, "%s is no part of a run", part)
		}
	}
	if r.Broken != (len(changes) > 0) || r.Broken != (parts["breaks"] != nil) || r.Broken != (parts["reach"] == nil) ||
		parts["steps"] == nil {
		fail(f.Pos, "a run has steps and reach; a broken rule has replace or action, steps and breaks")
	}
	if r.Broken {
		r.Model, r.Changed = m.change(changes)
	}
	if parts["sizes"] != nil {
		sizes = m.sizes(parts["sizes"], sizes)
	}
	in, err := NewInstance(r.Model, sizes)
	if err != nil {
		fail(f.Pos, "%v", err)
	}
	r.In = in
	for _, s := range parts["steps"].List[1:] {
		r.Steps = append(r.Steps, r.step(s))
	}
	if r.Broken {
		if len(parts["breaks"].List) != 2 {
			fail(parts["breaks"].Pos, "(breaks promise)")
		}
		if r.Breaks = r.Model.Invariant(parts["breaks"].List[1].Word); r.Breaks == nil || !r.Breaks.Promise {
			fail(parts["breaks"].Pos, "%s is no promise", parts["breaks"].List[1])
		}
		r.Reach = formula(r.Pos, OpNot, r.Breaks.Formula)
		return r
	}
	if len(parts["reach"].List) != 2 {
		fail(parts["reach"].Pos, "(reach formula)")
	}
	r.Reach = r.Model.p.expr(parts["reach"].List[1], &scope{bound: in.sortOf}, Bool)
	return r
}

func (r *Run) step(f *Form) Step {
	a := r.Model.Action(f.Head())
	if a == nil {
		fail(f.Pos, "%s is no action", f)
	}
	s := Step{Pos: f.Pos, Action: a}
	if len(f.List)-1 != len(a.Params) {
		fail(f.Pos, "%s has %d parameters, not %d", a.Name, len(a.Params), len(f.List)-1)
	}
	for i, x := range f.List[1:] {
		if x.Word != "_" && !slices.Contains(r.In.Elements[a.Params[i].Sort.Name], x.Word) {
			fail(x.Pos, "%s is no element of the sort %s", x, a.Params[i].Sort.Name)
		}
		s.Args = append(s.Args, x.Word)
	}
	return s
}

// change returns the model with some of its actions changed, and their names.
func (m *Model) change(changes []*Form) (*Model, []string) {
	forms := slices.Clone(m.forms)
	var names []string
	for _, c := range changes {
		if len(c.List) < 2 {
			fail(c.Pos, "%s is no change", c)
		}
		name := c.List[1].Word
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if c.Head() == "action" {
			forms = append(forms, c)
			continue
		}
		hits := 0
		if len(c.List) < 3 || m.Action(name) == nil {
			fail(c.Pos, "(replace action old new...) is expected, with an action of the model")
		}
		for i, f := range forms {
			if f.Head() == "action" && f.List[1].Word == name {
				changed, n := f.Replace(c.List[2], c.List[3:])
				forms[i], hits = changed, hits+n
			}
		}
		if hits == 0 {
			fail(c.Pos, "%s has no part %s", name, c.List[2])
		}
	}
	return newModel(m.File, forms), names
}
