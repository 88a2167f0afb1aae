// Package proofsteps has each step of a simulated run be one of the models that are proved: see
// package trace. It sees nodes and attempts from outside, before and after each thing that they do.
package proofsteps

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/proof/trace"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Config is what is known of a run before it begins.
type Config struct {
	Names   []string
	Stripes []int // of the names
	Nodes   int
	MaxTTL  time.Duration
	New     bool // no store was ever used
	Shares  bool // some share names
	// Survive: a majority of the registers survives, which the proof assumes.
	Survive bool
	Violate func(check, text string)
}

// Steps are those of a run. A nil one sees nothing.
type Steps struct {
	Config
	groups  []*trace.Group // by name
	holders map[node.Holder]uint64
	rounds  uint64
	open    map[uint64][]*Attempt // by holder
	nodes   [2]trace.Node         // scratch: before and after an operation
	latest  []uint64              // scratch
	used    []bool                // by node: it was admitted once, and what it has promised can be lost
	force   uint64                // the operator whose forced release is under way
	over    bool                  // a step was refused, or an assumption of the proof is broken
	also    *admissions
}

// New returns the steps of a run that begins.
func New(c Config) *Steps {
	s := &Steps{Config: c, holders: map[node.Holder]uint64{}, open: map[uint64][]*Attempt{}}
	for range c.Nodes {
		s.used = append(s.used, !c.New)
	}
	mc := trace.Of("tokens.model")
	if c.Shares {
		mc = trace.Of("shared.model")
	}
	for range c.Names {
		s.groups = append(s.groups, mc.NewGroup(mc.NewOpen(), c.Nodes))
	}
	s.also = s.newAdmissions()
	return s
}

// took notes that a step was refused.
func (s *Steps) took(name int, err error) {
	if err == nil || s.over {
		return
	}
	s.over = true
	if r, is := err.(*trace.Refusal); is && r.Missing && s.Shares {
		return // shared.model does not know all yet
	}
	s.Violate("steps", fmt.Sprintf("%q: %v", s.Names[name], err))
}

func (s *Steps) holder(h node.Holder) uint64 {
	id, has := s.holders[h]
	if !has {
		id = uint64(len(s.holders))
		s.holders[h] = id
	}
	return id
}

// see reads a node's entry into x.
func (s *Steps) see(x *trace.Node, e *rule.Entry, now time.Duration) {
	*x = trace.Node{Register: uint64(e.Register), Leases: x.Leases[:0]}
	switch {
	case e.Holder == "" || now >= e.Expires || e.Holder.Reserves():
	case e.Holder.Shared():
		first, rest, _ := strings.Cut(strings.TrimPrefix(string(e.Holder), node.SharedPrefix), "\n")
		epoch, _ := strconv.ParseUint(first, 10, 64)
		for line := range strings.Lines(rest) {
			fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
			expires, _ := strconv.ParseInt(fields[0], 10, 64)
			origin, _ := strconv.ParseUint(fields[1], 10, 64)
			if now >= time.Duration(expires) {
				continue
			}
			if h := node.Holder(fields[3]); !h.Reserves() {
				x.Leases = append(x.Leases, trace.Lease{Holder: s.holder(h), Origin: origin})
			}
		}
		if len(x.Leases) > 0 { // reservations keep nothing
			x.Epoch, x.Sharing = epoch, true
		}
	default:
		x.Leases = append(x.Leases, trace.Lease{Holder: s.holder(e.Holder), Origin: uint64(e.Origin)})
	}
}

// ops are the operations that a model has.
var ops = map[node.Op]trace.Op{node.Acquire: trace.Acquire, node.Confirm: trace.Confirm, node.Extend: trace.Extend,
	node.Release: trace.Release, node.ForceRelease: trace.Force}

// Served is an operation that a node has carried out, with the answer as the client gets it.
func (s *Steps) Served(id int, r node.Request, before, after *rule.Entry, now time.Duration, did, got node.Answer) {
	if s == nil || did.Status != node.Granted && *before == *after {
		// Nothing happens. What seems to have ended by now can be there again, where a clock is set back.
		return
	}
	name := slices.Index(s.Names, r.Name)
	d := trace.Served{Node: id, Op: ops[r.Op], Holder: s.force, Token: uint64(r.Token),
		Granted: did.Status == node.Granted, Counts: got.Status == did.Status,
		Answer: uint64(did.Register), Before: &s.nodes[0], After: &s.nodes[1]}
	if r.Op != node.ForceRelease {
		d.Holder = s.holder(r.Holder)
	}
	s.see(d.Before, before, now)
	s.see(d.After, after, now)
	s.also.served(name, r.Op, &d)
	if s.over || !s.used[id] {
		return
	}
	d.Reads = r.Shared && s.Shares
	s.latest = s.latest[:0]
	for _, x := range s.open[d.Holder] {
		switch {
		case x.shares && !d.Reads: // a request of before, if it is of this process
			if x.alone != 0 {
				s.latest = append(s.latest, x.alone)
			}
		case d.Reads && !x.shares: // of another process, to which the lock has gone
		case x.seen.Round != 0:
			s.latest = append(s.latest, x.seen.Round)
		}
	}
	d.Rounds = s.latest
	s.took(name, s.groups[name].Serve(&d))
}

// Forces begins a forced release.
func (s *Steps) Forces(name int) (operator uint64) {
	if s == nil {
		return 0
	}
	operator = s.holder(node.Holder(fmt.Sprint("operator ", len(s.holders))))
	if !s.also.over {
		s.also.took(name, s.also.groups[name].Begin(operator))
	}
	if !s.over {
		s.took(name, s.groups[name].Begin(operator))
	}
	return operator
}

// Force is such an operator's request, which is carried out next.
func (s *Steps) Force(operator uint64) {
	if s != nil {
		s.force = operator
	}
}

// Forced is the end of a forced release.
func (s *Steps) Forced(name int, operator uint64, number fence.Token) {
	if s == nil {
		return
	}
	if !s.also.over {
		s.also.took(name, s.also.groups[name].Forced(operator, uint64(number)))
	}
	if !s.over {
		s.took(name, s.groups[name].Forced(operator, uint64(number)))
	}
}

// Node is a store as it is now.
type Node struct {
	ID     int
	Memory string
	Store  *rule.Store
	Now    time.Duration // by its clock
	Marked bool
	Out    time.Duration // since its mark was removed
}

// of is what a store has of a name.
func (s *Steps) of(n Node, name int) *trace.Node {
	l := n.Store.Leases[s.Names[name]]
	s.see(&s.nodes[0], &rule.Entry{Holder: l.Holder, Expires: l.Expires, Origin: l.Origin,
		Register: n.Store.Registers[s.Stripes[name]]}, n.Now)
	return &s.nodes[0]
}

// Lost is a store that has another memory.
func (s *Steps) Lost(n Node) {
	if s == nil {
		return
	}
	for i := range s.groups {
		if !s.also.over {
			s.also.took(i, s.also.groups[i].Lost(n.ID, s.of(n, i)))
		}
		if !s.over && s.used[n.ID] {
			s.took(i, s.groups[i].Lost(n.ID, s.of(n, i)))
		}
	}
}

// End sums up: the steps of the models, and whether from some moment on they were not looked at.
// Of stores it is what came of their admissions.
func (s *Steps) End() (steps int, untied bool, admissions map[string]int) {
	if s == nil {
		return 0, false, nil
	}
	for i := range s.groups {
		steps += s.groups[i].Steps() + s.also.groups[i].Steps()
	}
	if s.also.over {
		s.also.counts["over"] = 1
	}
	return steps, s.over, s.also.counts
}
