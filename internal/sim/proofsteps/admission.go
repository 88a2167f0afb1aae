package proofsteps

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/internal/proof/trace"
	"github.com/fenlock/fenlock/node"
)

// admissions has each step of a run be one of admission.model: see Steps, which tells it what
// happens. It goes on where that ends, when a majority has lost its memory.
type admissions struct {
	s      *Steps
	groups []*trace.Admissions // by name
	counts map[string]int      // of stores that were admitted, by the action that it was
	over   bool
}

func (s *Steps) newAdmissions() *admissions {
	// the model has no shared names
	a := &admissions{s: s, counts: map[string]int{}, over: s.Shares}
	for i := range s.Names {
		g := trace.Of("admission.model").NewAdmissions(s.Nodes)
		a.groups = append(a.groups, g)
		for id, used := range s.used {
			if used {
				a.took(i, g.Do("new", uint64(id)))
			}
		}
	}
	return a
}

func (a *admissions) took(name int, err error) {
	if err != nil && !a.over {
		a.over = true
		a.s.Violate("admission steps", fmt.Sprintf("%q: %v", a.s.Names[name], err))
	}
}

// served is an operation that a node has carried out.
func (a *admissions) served(name int, op node.Op, d *trace.Served) {
	if a.over {
		return
	}
	g := a.groups[name]
	if d.After.Register > d.Before.Register && op != node.Extend && op != node.Confirm && g.Overtaken(d.After.Register) {
		a.over = true // a number that the clients' clocks should have passed
		return
	}
	a.took(name, g.Serve(d))
}

// Question is one of a client's to the other nodes, to have a store admitted.
type Question struct {
	Of     Node
	Unused bool // to the client the store may be one that was never used
	// Stale: the store has changed since the client looked, or the client is of another group. It
	// will not admit the store by this.
	Stale    bool
	Again    bool     // the others were asked before
	Memories []string // by node
}

// Asked is the moment at which the others were asked last.
type Asked struct {
	moments  []*trace.Moment // by name; nil: they had not been asked before
	memories []string        // by node
}

// Asks is a client that asks.
func (s *Steps) Asks(q Question) *Asked {
	asked := &Asked{moments: make([]*trace.Moment, len(s.groups))}
	if q.Stale {
		return asked
	}
	early := s.early(q.Of)
	if !s.also.over {
		for i, g := range s.also.groups {
			if q.Again || s.Nodes == 1 { // alone, there is no node to ask twice
				asked.moments[i] = g.Now()
			}
			if early == "" {
				s.also.took(i, g.Waited(q.Of.ID))
			}
		}
		asked.memories = q.Memories
	}
	if s.over || q.Unused {
		return asked
	}
	for i, g := range s.groups {
		if early != "" && g.Out(q.Of.ID) {
			s.took(i, errors.New(early))
			break
		}
		s.took(i, g.Waited(q.Of.ID))
	}
	return asked
}

// early says why the quarantine of a store that has voted is not over, "" if it is.
func (s *Steps) early(n Node) string {
	quarantine := s.MaxTTL + s.MaxTTL/100 + 2*time.Millisecond // proof/README.md, "Time"
	if !s.used[n.ID] || !n.Marked && n.Out >= quarantine {
		return ""
	}
	return fmt.Sprintf("(wait n%d): the quarantine of %v is not over: its mark was removed %v ago", n.ID+1, quarantine,
		n.Out)
}

// Reading is what a node has said, and what it was to the models then.
type Reading struct {
	*node.Registers
	out   []bool // by name
	empty []empty
}

type empty struct{ out, listed bool } // to admission.model

// Read is a node that says its registers.
func (s *Steps) Read(id int, said *node.Registers) Reading {
	r := Reading{Registers: said}
	if s != nil {
		for i, g := range s.also.groups {
			r.out = append(r.out, s.groups[i].Out(id))
			r.empty = append(r.empty, empty{g.Out(id), g.Listed(id)})
		}
	}
	return r
}

// Admission is a store that was admitted. What the nodes said is what it rests on.
type Admission struct {
	Of        Node
	Weak, New bool
	Empty     []string  // the memories that it records as lost
	Asked     *Asked    // nil: the others were not asked
	Reads     []Reading // by node
	Memories  []string  // by node
}

// Admitted is such a store.
func (s *Steps) Admitted(d Admission) {
	id := d.Of.ID
	defer func() { s.used[id] = true }()
	s.also.admitted(d)
	if s.over || !s.used[id] {
		return
	}
	for i, g := range s.groups {
		if !s.Survive && g.Out(id) {
			s.over = true // a majority may have lost its memory: nothing is proved of what comes
			return
		}
		var of []trace.Reading
		for w, r := range d.Reads {
			switch {
			case w == id:
			case !s.used[w]: // it has promised nothing, whether it answers or not
				of = append(of, trace.Reading{Node: w})
			case r.Registers != nil && r.Admitted:
				of = append(of, trace.Reading{Node: w, Register: uint64(r.Tokens[s.Stripes[i]]), Out: r.out[i]})
			}
		}
		s.took(i, g.Admitted(id, of, s.of(d.Of, i)))
	}
}

func (a *admissions) admitted(d Admission) {
	asked := d.Asked
	if asked == nil {
		asked = &Asked{moments: make([]*trace.Moment, len(a.groups))}
	}
	for i, g := range a.groups {
		if a.over {
			return
		}
		x := trace.Admission{Node: d.Of.ID, Weak: d.Weak, New: d.New, Listed: !d.Weak && len(d.Empty) > 0,
			Now: a.s.of(d.Of, i), Between: asked.moments[i]}
		for w, r := range d.Reads {
			switch {
			case r.Registers == nil || w == d.Of.ID:
			case r.Admitted:
				x.Readings = append(x.Readings,
					trace.Reading{Node: w, Register: uint64(r.Tokens[a.s.Stripes[i]]), Out: r.empty[i].out})
			case r.empty[i].listed:
				x.On = append(x.On, w)
			}
		}
		for w, memory := range asked.memories {
			if slices.Contains(d.Empty, memory) {
				x.Empty = append(x.Empty, w)
				if d.Memories[w] == memory && g.Out(w) {
					x.Still = append(x.Still, w)
				}
			}
		}
		action, broken, err := g.Admitted(&x)
		a.took(i, err)
		if i == 0 {
			a.counts[action]++
		}
		a.over = a.over || broken
	}
}
