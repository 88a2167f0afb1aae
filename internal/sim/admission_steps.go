package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/proof/trace"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// admissionSteps has each step of a run be one of admission.model: see proofSteps, which tells it
// what happens. It goes on where that ends, when a majority has lost its memory.
type admissionSteps struct {
	s      *proofSteps
	groups []*trace.Admissions // by name
	open   map[*lock]bool      // attempts that have not got their token
	counts map[string]int      // Result.Admissions
	over   bool
}

func (s *proofSteps) newAdmissions() *admissionSteps {
	// the model has no shared names
	a := &admissionSteps{s: s, open: map[*lock]bool{}, counts: map[string]int{}, over: s.w.profile.shares}
	for i := range s.w.names {
		g := trace.Of("admission.model").NewAdmissions(len(s.w.nodes))
		a.groups = append(a.groups, g)
		for _, n := range s.w.nodes {
			if n.used {
				a.took(i, g.Do("new", uint64(n.id)))
			}
		}
	}
	return a
}

func (a *admissionSteps) took(name int, err error) {
	if err != nil && !a.over {
		a.over = true
		a.s.w.violate("admission steps", fmt.Sprintf("%q: %v", a.s.w.names[name], err))
	}
}

// begins is an attempt that is made, or that nodes made.
func (a *admissionSteps) begins(l *lock, given bool) {
	if a.over {
		return
	}
	if a.open[l] = true; !given {
		a.took(l.name, a.groups[l.name].Begin(a.s.holder(l.holder)))
	}
}

// told is an attempt that was told something.
func (a *admissionSteps) told(l *lock, phase core.Phase, token fence.Token) {
	if !a.over && a.open[l] && phase == core.Holding {
		delete(a.open, l)
		a.took(l.name, a.groups[l.name].Forced(a.s.holder(l.holder), uint64(token)))
	}
}

// served is an operation that a node has carried out.
func (a *admissionSteps) served(n *server, r node.Request, before, after *rule.Entry, now time.Duration,
	did node.Answer, counts bool) {
	if a.over || did.Status != node.Granted && *before == *after {
		return
	}
	name := a.s.nameOf(r.Name)
	d := trace.Served{Node: n.id, Op: opOf(r.Op), Holder: a.s.force, Token: uint64(r.Token),
		Granted: did.Status == node.Granted, Counts: counts,
		Answer: uint64(did.Register), Before: &a.s.nodes[0], After: &a.s.nodes[1]}
	if r.Op != node.ForceRelease {
		d.Holder = a.s.holder(r.Holder)
	}
	a.s.see(d.Before, before, now)
	a.s.see(d.After, after, now)
	g := a.groups[name]
	if after.Register > before.Register && r.Op != node.Extend && r.Op != node.Confirm &&
		g.Overtaken(uint64(after.Register)) {
		a.over = true // a number that the clients' clocks should have passed
		return
	}
	a.took(name, g.Serve(&d))
}

// lost is a store that has another memory.
func (a *admissionSteps) lost(n *server) {
	for i := range a.groups {
		if !a.over {
			a.took(i, a.groups[i].Lost(n.id, a.s.now(n, i)))
		}
	}
}

// asks is a client that asks the other nodes.
func (a *admissionSteps) asks(t *try) {
	t.between = between{moments: make([]*trace.Moment, len(a.groups))}
	n := a.s.w.nodes[t.node]
	if a.over || t.Facts.State != n.state() || t.c.terms != a.s.w.terms {
		return
	}
	for i, g := range a.groups {
		if t.asked > 0 || len(a.s.w.nodes) == 1 { // alone, there is no node to ask twice
			t.between.moments[i] = g.Now()
		}
		if a.s.early(n) == "" {
			a.took(i, g.Waited(t.node))
		}
	}
	for _, other := range a.s.w.nodes {
		t.between.memories = append(t.between.memories, other.memoryName())
	}
}

// between is the moment at which the others were asked last.
type between struct {
	moments  []*trace.Moment // by name; nil: they had not been asked before
	memories []string        // by node
}

// admitted is a store that was admitted by a try.
func (a *admissionSteps) admitted(n *server, t *try) {
	after := *t.Try // what it warns of says what kind of admission it is
	after.Marked(true)
	for i, g := range a.groups {
		if a.over {
			return
		}
		d := trace.Admission{Node: n.id, Weak: after.Warning != "", New: strings.Contains(after.Warning, "servers are new"),
			Now: a.s.now(n, i)}
		d.Listed = !d.Weak && len(t.Empty) > 0
		if t.between.moments != nil {
			d.Between = t.between.moments[i]
		}
		for w, r := range t.reads {
			switch {
			case r.Registers == nil || w == n.id:
			case r.Admitted:
				d.Readings = append(d.Readings,
					trace.Reading{Node: w, Register: uint64(r.Tokens[a.s.w.stripes[i]]), Out: r.empty[i].out})
			case r.empty[i].listed:
				d.On = append(d.On, w)
			}
		}
		for w, memory := range t.between.memories {
			if slices.Contains(t.Empty, memory) {
				d.Empty = append(d.Empty, w)
				if a.s.w.nodes[w].memoryName() == memory && g.Out(w) {
					d.Still = append(d.Still, w)
				}
			}
		}
		action, broken, err := g.Admitted(&d)
		a.took(i, err)
		if i == 0 {
			a.counts[action]++
		}
		a.over = a.over || broken
	}
}

// end sums up.
func (a *admissionSteps) end(r *Result) {
	for _, g := range a.groups {
		r.Steps += g.Steps()
	}
	if r.Admissions = a.counts; a.over {
		a.counts["over"] = 1
	}
}
