package trace

import (
	"fmt"
	"slices"
)

// This file is the abstraction of admission.model: what stores say of each other, and which of them
// votes. Its other actions are as in steps.go, with what it does not have in parts:
//
//	seen                                               action
//	an extend granted                                  extend n H if there was no lease; move n R
//	a forced release answered with r                   vanish n, acquire n O r, vanish n
//	the name is given with r                           vanish n, acquire n H r
//	a store gets another memory                        lose n R
//	anything on a store that is out                    move n R: its leases are not in the model, and have to be gone when it votes
//	its quarantine is over                             wait n
//	a store is admitted as all are new                 new n
//	one that has promised nothing is admitted weakly,  new n: nothing rests on a clock, or on the list
//	or as it was on the list
//	one is admitted, by enough registers               rebuild n w for each that was read, as it was then; admit n _; move n R
//	one is admitted that was on the list               the same, with known n F. F are those that were neither read nor on the list
//	one is admitted weakly                             weak n s L; move n R: at the moment between the two questions to the others, with
//	                                                   all that was promised then
//
// Names that are shared are not in the model.

// Admissions is a Group of admission.model.
type Admissions struct {
	*Group
	used, listed, promised, clocks *symbol

	acquired []uint64 // the numbers of all acquires, in their order
	lists    uint64
}

// NewAdmissions returns a group in which no store was ever used.
func (mc *Machine) NewAdmissions(nodes int) *Admissions {
	a := &Admissions{Group: mc.NewGroup(mc.NewOpen(), nodes), used: mc.symbol("used"), listed: mc.symbol("listed"),
		promised: mc.symbol("promised"), clocks: mc.symbol("past")}
	for n := range nodes {
		a.put(a.out, 1, uint64(n))
	}
	return a
}

// Listed reports whether a weak admission has found a store empty, and no other admission came
// after it.
func (a *Admissions) Listed(n int) bool { return a.get(a.listed, uint64(n)) != 0 }

// Serve is an operation that a node has carried out.
func (a *Admissions) Serve(d *Served) error {
	n, out := uint64(d.Node), a.Out(d.Node)
	before, after := d.Before, d.After
	if out {
		before, after = &Node{Register: before.Register}, &Node{Register: after.Register}
	}
	err := a.since(n, before)
	switch {
	case err != nil || out && !d.Counts:
	case d.Op == Release && !out:
		if after.Register > before.Register { // it is given
			a.acquired = append(a.acquired, after.Register)
		}
		err = a.leftBy(n, d)
	case !d.Granted:
	case d.Op == Acquire:
		err = a.acquire(n, d.Holder, d.Answer)
	case d.Op == Confirm:
		err = a.Do("confirm", n, d.Holder, d.Token)
	case d.Op == Extend && a.get(a.leased, n, d.Holder) == 0:
		err = a.Do("extend", n, d.Holder)
	case d.Op == Force:
		if err = a.gone(n, after); err == nil {
			err = a.acquire(n, d.Holder, d.Answer)
		}
		if err == nil {
			err = a.gone(n, after)
		}
	}
	if err == nil {
		err = a.Seen(d.Node, after.Register)
	}
	if err == nil {
		err = a.same("after an operation", n, after)
	}
	return err
}

func (a *Admissions) acquire(n, holder, r uint64) error {
	a.acquired = append(a.acquired, r)
	return a.Do("acquire", n, holder, r)
}

// Overtaken reports whether a number is one that the clients' clocks should have passed, by the
// assumption of a weak admission.
func (a *Admissions) Overtaken(r uint64) bool { return r <= a.get(a.clocks) && r > 0 }

// Lost is a store that has another memory from now on.
func (a *Admissions) Lost(n int, now *Node) error { return a.Do("lose", uint64(n), now.Register) }

// Moment is what there was when the others were asked the second time.
type Moment struct {
	promised []entry
	out      []bool
	acquired int
	largest  uint64
}

// Now is this moment.
func (a *Admissions) Now() *Moment {
	m := &Moment{acquired: len(a.acquired)}
	a.S.each(a.promised, func(k key, v uint64) bool {
		m.promised, m.largest = append(m.promised, entry{k, v}), max(m.largest, k[2])
		return true
	})
	for n := range a.Nodes {
		m.out = append(m.out, a.Out(n))
	}
	return m
}

// Admission is a store that votes from now on.
type Admission struct {
	Node     int
	New      bool // it was admitted on the word that all servers are new
	Weak     bool
	Listed   bool      // it was admitted as it was on the list
	Readings []Reading // of the nodes that said that they vote
	On       []int     // those that were on the list when the others answered
	Between  *Moment   // of a weak one
	Empty    []int     // those that it has found empty, with the memory that they have had in that moment
	Still    []int     // of them: with the memory that they have now
	Now      *Node
}

// Admitted is such an admission. It returns which action it is; broken: the assumption of a weak
// one does not hold.
func (a *Admissions) Admitted(d *Admission) (action string, broken bool, err error) {
	n := uint64(d.Node)
	switch {
	case !a.Out(d.Node):
		return "", false, nil
	case d.New:
		action = "new"
		err = a.Do("new", n)
	case d.Weak && slices.ContainsFunc(append(d.Empty, d.Node), func(w int) bool { return a.get(a.used, uint64(w)) != 0 }):
		action = "weak"
		broken, err = a.weak(n, d)
	case (d.Weak || d.Listed) && a.get(a.used, n) == 0:
		action = "new"
		err = a.Do("new", n)
	default:
		for _, r := range d.Readings {
			if err = a.read(n, r); err != nil {
				return "rebuild", false, err
			}
		}
		if action = "admit"; d.Listed {
			action = "known"
			err = a.known(n, d)
		} else {
			err = a.Do("admit", n, Any)
		}
	}
	if err == nil {
		err = a.Seen(d.Node, d.Now.Register)
	}
	if err == nil {
		err = a.same("when it is admitted", n, d.Now)
	}
	return action, broken, err
}

// known finds the set of those that were not read. Nodes are as they were when they answered.
func (a *Admissions) known(n uint64, d *Admission) error {
	var had []uint64
	for _, w := range d.On {
		had = append(had, a.get(a.listed, uint64(w)))
		a.put(a.listed, 1, uint64(w))
	}
	few, count := uint64(0), 0
	for w := range uint64(a.Nodes) {
		if w != n && a.get(a.listed, w) == 0 && a.get(a.symbol("read"), n, w) == 0 && count < a.Nodes/2 {
			few, count = few|1<<w, count+1
		}
	}
	err := a.Do("known", n, few)
	for i, w := range d.On {
		if uint64(w) != n {
			a.put(a.listed, had[i], uint64(w))
		}
	}
	return err
}

// weak takes the step as it was in the moment between the two questions. Nothing that has happened
// since depends on it, but acquires. This node has not voted, and what it says of others is only
// said when it does.
func (a *Admissions) weak(n uint64, d *Admission) (broken bool, err error) {
	m := d.Between
	if m == nil {
		return false, a.refuse(fmt.Sprintf("(weak n%d)", n+1), "the others were not asked twice")
	}
	out := 0
	for _, is := range m.out {
		out += int(b2i(is))
	}
	if out <= a.Nodes/2 {
		return false, a.refuse(fmt.Sprintf("(weak n%d)", n+1),
			fmt.Sprintf("no majority had lost its memory: %d of %d nodes were out", out, a.Nodes))
	}
	a.lists++
	list := a.lists
	for _, e := range d.Empty {
		a.Fix("on", 1, uint64(e), list)
	}
	since := a.Now()
	set := func(m *Moment, v uint64) {
		for _, e := range m.promised {
			a.S.set(a.promised, e.key, v)
		}
	}
	set(since, 0)
	set(m, 1)
	for w, is := range m.out {
		a.put(a.out, b2i(is), uint64(w))
	}
	err = a.Do("weak", n, m.largest, list)
	set(m, 0)
	set(since, 1)
	for w, is := range since.out {
		if uint64(w) != n {
			a.put(a.out, b2i(is), uint64(w))
		}
	}
	for _, e := range d.Empty {
		if !slices.Contains(d.Still, e) {
			a.put(a.listed, 0, uint64(e))
		}
	}
	for _, r := range a.acquired[m.acquired:] {
		broken = broken || r <= m.largest
	}
	return broken, err
}
