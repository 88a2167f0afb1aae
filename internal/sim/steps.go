package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/proof/trace"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// proofSteps has each step of a run be one of the models that are proved: see package trace. It
// sees nodes and attempts from outside, before and after each thing that they do. A nil one sees
// nothing.
type proofSteps struct {
	w       *world
	groups  []*trace.Group // by name
	holders map[node.Holder]uint64
	rounds  uint64
	open    map[uint64][]*watch // by holder: the attempts that have it
	nodes   [2]trace.Node       // scratch: before and after an operation
	latest  []uint64            // scratch
	force   uint64              // the operator whose forced release is under way
	over    bool                // a step was refused, or an assumption of the proof is broken
	also    *admissionSteps
}

// watch is what is seen of an attempt.
type watch struct {
	holder  uint64
	seen    trace.Held
	shares  bool   // the latest extension lets others share the name
	alone   uint64 // the latest that does not
	offered uint64
	round   uint32
	kept    []kept // the latest extensions
}

// kept is an extension on which something may be decided.
type kept struct {
	round uint32
	id    uint64
}

func (w *world) newSteps() *proofSteps {
	s := &proofSteps{w: w, holders: map[node.Holder]uint64{}, open: map[uint64][]*watch{}}
	mc := trace.Of("tokens.model")
	if w.profile.shares {
		mc = trace.Of("shared.model")
	}
	for range w.names {
		s.groups = append(s.groups, mc.NewGroup(mc.NewOpen(), len(w.nodes)))
	}
	s.also = s.newAdmissions()
	return s
}

// took notes that a step was refused.
func (s *proofSteps) took(name int, err error) {
	if err == nil || s.over {
		return
	}
	s.over = true
	if r, is := err.(*trace.Refusal); is && r.Missing && s.w.profile.shares {
		return // shared.model does not know all yet
	}
	s.w.violate("steps", fmt.Sprintf("%q: %v", s.w.names[name], err))
}

func (s *proofSteps) holder(h node.Holder) uint64 {
	id, has := s.holders[h]
	if !has {
		id = uint64(len(s.holders))
		s.holders[h] = id
	}
	return id
}

// see reads a node's entry into x.
func (s *proofSteps) see(x *trace.Node, e *rule.Entry, now time.Duration) {
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

func (s *proofSteps) nameOf(name string) int {
	for i, n := range s.w.names {
		if n == name {
			return i
		}
	}
	return -1
}

func opOf(op node.Op) trace.Op {
	switch op {
	case node.Acquire:
		return trace.Acquire
	case node.Confirm:
		return trace.Confirm
	case node.Extend:
		return trace.Extend
	case node.Release:
		return trace.Release
	case node.ForceRelease:
		return trace.Force
	}
	return trace.Other
}

// served is an operation that a node has carried out, with the answer as the client gets it.
func (s *proofSteps) served(n *server, r node.Request, before, after *rule.Entry, now time.Duration, did,
	got node.Answer) {
	if s == nil {
		return
	}
	s.also.served(n, r, before, after, now, did, got.Status == did.Status)
	if s.over || !n.used {
		return
	}
	if did.Status != node.Granted && *before == *after {
		// Nothing happens. What seems to have ended by now can be there again, where a clock is set back.
		return
	}
	name := s.nameOf(r.Name)
	d := trace.Served{Node: n.id, Op: opOf(r.Op), Token: uint64(r.Token), Reads: r.Shared && s.w.profile.shares,
		Granted: did.Status == node.Granted, Counts: got.Status == did.Status,
		Answer: uint64(did.Register), Before: &s.nodes[0], After: &s.nodes[1]}
	s.see(d.Before, before, now)
	s.see(d.After, after, now)
	if d.Holder = s.force; r.Op != node.ForceRelease {
		d.Holder = s.holder(r.Holder)
	}
	s.latest = s.latest[:0]
	for _, w := range s.open[d.Holder] {
		switch {
		case w.shares && !d.Reads: // a request of before, if it is of this process
			if w.alone != 0 {
				s.latest = append(s.latest, w.alone)
			}
		case d.Reads && !w.shares: // of another process, to which the lock has gone
		case w.seen.Round != 0:
			s.latest = append(s.latest, w.seen.Round)
		}
	}
	d.Rounds = s.latest
	s.took(name, s.groups[name].Serve(&d))
}

// begins is an attempt that is made, by which a lock is adopted if mark is not 0.
func (s *proofSteps) begins(l *lock, token, mark fence.Token) {
	if s == nil {
		return
	}
	if mark == 0 {
		s.also.begins(l, false)
	}
	if s.over {
		return
	}
	g := s.groups[l.name]
	l.watch = &watch{holder: s.holder(l.holder)}
	s.open[l.watch.holder] = append(s.open[l.watch.holder], l.watch)
	if mark == 0 {
		g.Fix("reader", b2i(l.a.shared), l.watch.holder)
		s.took(l.name, g.Begin(l.watch.holder))
		return
	}
	l.watch.round = 1
	l.watch.seen = trace.Held{Adopting: true, Token: uint64(token), Mark: uint64(mark), Round: s.round(l)}
	s.took(l.name, g.Starts(l.watch.seen.Round))
}

// given is an attempt whose holder nodes made. They have begun it.
func (s *proofSteps) given(l *lock) {
	if s == nil {
		return
	}
	if s.also.begins(l, true); s.over {
		return
	}
	l.watch = &watch{holder: s.holder(l.holder)}
	s.open[l.watch.holder] = append(s.open[l.watch.holder], l.watch)
}

func b2i(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// round makes an extension.
func (s *proofSteps) round(l *lock) uint64 {
	s.rounds++
	g := s.groups[l.name]
	w := l.watch
	if len(w.kept) == remembered {
		if old := w.kept[0].id; old != w.alone {
			g.DropRound(old)
		}
		w.kept = slices.Delete(w.kept, 0, 1)
	}
	w.kept = append(w.kept, kept{w.round, s.rounds})
	if w.shares = l.a.shared; !w.shares {
		w.alone = s.rounds
	}
	g.NewRound(s.rounds, w.holder, w.shares)
	return s.rounds
}

// told is an attempt after it was told something.
func (s *proofSteps) told(l *lock, a shell.Attempt) {
	if s == nil {
		return
	}
	if s.also.told(l, a.Phase(), a.Token()); s.over || l.watch == nil {
		return
	}
	w := l.watch
	now := w.seen
	phase := a.Phase()
	now.Adopting = phase == core.Adopting
	now.Holding = w.seen.Holding || phase == core.Holding
	now.Token = uint64(a.Token())
	if now.Holding {
		if now.Mark == 0 {
			now.Mark = now.Token
		}
		now.Mark = markOf(a, now.Mark)
	}
	round, state := a.Extension()
	if round != w.round {
		w.round = round
		now.Round = s.round(l)
		w.seen.Carried = false
	}
	if phase == core.Holding {
		now.Until = int64(a.Until())
	}
	// It is carried when the validity is longer; where a mark is wanted, the core calls it carried
	// later.
	longer := w.seen.Holding && now.Until > w.seen.Until
	before := w.seen
	var could []uint64
	for _, x := range l.countsFrom(time.Duration(now.Until)) {
		for _, k := range w.kept {
			if longer && k.round == x.round {
				could = append(could, k.id)
			}
		}
	}
	switch latest := now.Round; {
	case len(could) > 1: // one of them is carried
		var err error
		for _, id := range could {
			if err = s.groups[l.name].Do("carry", id, trace.Any); err == nil {
				now.Carried = now.Carried || id == latest
				break
			}
		}
		s.took(l.name, err)
		before.Until, before.Carried = now.Until, now.Carried
		now.Carried = now.Carried || state == core.Carried
	case len(could) == 1 && could[0] != latest:
		now.Sure = could[0]
		now.Carried = now.Carried || state == core.Carried
	default:
		now.Carried = now.Carried || state == core.Carried || longer
	}
	w.seen = now
	if before.Holding != now.Holding {
		before.Until = now.Until
	}
	s.took(l.name, s.groups[l.name].Told(w.holder, &before, &now, w.offered))
}

// markOf finds the mark of an attempt by what it accepts, from the one that it had.
func markOf(a shell.Attempt, had uint64) uint64 {
	accepts := func(origin uint64) bool {
		return a.Accepts(core.Reply{Status: core.Granted, Register: fence.Token(origin)})
	}
	if !accepts(had + 1) {
		return had
	}
	low, step := had+1, uint64(1)
	for accepts(low + step) {
		low, step = low+step, 2*step
	}
	for step > 1 { // it accepts low, and not low + step
		if step /= 2; accepts(low + step) {
			low += step
		}
	}
	return low
}

// offers is a mark that is to go with a text.
func (s *proofSteps) offers(l *lock, mark fence.Token) {
	if s != nil && l.watch != nil {
		l.watch.offered = uint64(mark)
	}
}

func (s *proofSteps) exported(l *lock, mark fence.Token) {
	if s != nil && !s.over && l.watch != nil {
		s.took(l.name, s.groups[l.name].Exported(l.watch.holder, uint64(mark)))
	}
}

// forces begins a forced release.
func (s *proofSteps) forces(name int) (operator uint64) {
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

func (s *proofSteps) forced(name int, operator uint64, number fence.Token) {
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

// lost is a store that has another memory.
func (s *proofSteps) lost(n *server) {
	if s == nil {
		return
	}
	if s.also.lost(n); s.over || !n.used {
		return
	}
	for i := range s.groups {
		s.took(i, s.groups[i].Lost(n.id, s.now(n, i)))
	}
}

// now is what a store has of a name.
func (s *proofSteps) now(n *server, name int) *trace.Node {
	l := n.store.Leases[s.w.names[name]]
	s.see(&s.nodes[0], &rule.Entry{Holder: l.Holder, Expires: l.Expires, Origin: l.Origin,
		Register: n.store.Registers[s.w.stripes[name]]}, n.local())
	return &s.nodes[0]
}

// asks is a client that asks the other nodes, to have a store admitted.
func (s *proofSteps) asks(t *try) {
	if s == nil {
		return
	}
	if s.also.asks(t); s.over || t.c.says && !t.Facts.Recorded {
		return // it may be one that was never used
	}
	n := s.w.nodes[t.node]
	if t.Facts.State != n.state() || t.c.terms != s.w.terms {
		// The store has changed since the client looked, or the client is of another group: this try
		// will not admit it.
		return
	}
	for i, g := range s.groups {
		if early := s.early(n); early != "" && g.Out(n.id) {
			s.took(i, errors.New(early))
			return
		}
		s.took(i, g.Waited(t.node))
	}
}

// early says why the quarantine of a store that has voted is not over, "" if it is.
func (s *proofSteps) early(n *server) string {
	out, quarantine := n.local()-n.unmarked, s.w.maxTTL+s.w.maxTTL/100+2*time.Millisecond // proof/README.md, "Time"
	if !n.used || n.mark == 0 && out >= quarantine {
		return ""
	}
	return fmt.Sprintf("(wait n%d): the quarantine of %v is not over: its mark was removed %v ago", n.id+1, quarantine,
		out)
}

// reading is what a node has said, and whether it was out to the model.
type reading struct {
	*node.Registers
	out   []bool    // by name
	empty []isEmpty // by name, to admission.model
}

type isEmpty struct{ out, listed bool }

func (n *server) read() reading {
	r := reading{Registers: n.say()}
	if s := n.w.steps; s != nil {
		for _, g := range s.groups {
			r.out = append(r.out, g.Out(n.id))
		}
		for _, g := range s.also.groups {
			r.empty = append(r.empty, isEmpty{g.Out(n.id), g.Listed(n.id)})
		}
	}
	return r
}

// admitted is a store that was admitted by a try. What the try was told by the nodes is what it
// rests on.
func (s *proofSteps) admitted(n *server, t *try) {
	if s == nil {
		return
	}
	defer func() { n.used = true }()
	s.also.admitted(n, t)
	if s.over {
		return
	}
	if n.used {
		for i, g := range s.groups {
			if !s.w.rests(registersSurvive) && g.Out(n.id) {
				s.over = true // a majority may have lost its memory: nothing is proved of what comes
				return
			}
			var of []trace.Reading
			for w, r := range t.reads {
				switch other := s.w.nodes[w]; {
				case other == n:
				case !other.used: // it has promised nothing, whether it answers or not
					of = append(of, trace.Reading{Node: w})
				case r.Registers != nil && r.Admitted:
					of = append(of, trace.Reading{Node: w, Register: uint64(r.Tokens[s.w.stripes[i]]), Out: r.out[i]})
				}
			}
			s.took(i, g.Admitted(n.id, of, s.now(n, i)))
		}
	}
}

// end sums up.
func (s *proofSteps) end(r *Result) {
	if s == nil {
		return
	}
	for _, g := range s.groups {
		r.Steps += g.Steps()
	}
	if s.over {
		r.Untied = 1
	}
	s.also.end(r)
}
