package core_test

import (
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// A text by which a lock was adopted, and released without an error, is of no use. The search is of
// one holder, three nodes that follow package rule, and an adopter that is a core.Attempt. What is
// under way between them is delivered in any order. It begins with every state that an export can
// leave: a quorum has agreed to the raise, and any of its requests may still come. Leases vanish at
// any moment, which shows at the next operation at their node, and other names move registers. Once
// the release has succeeded, a second adopter is another core.Attempt. Each node gives it the best
// answer that it can: what comes late only raises registers, and makes leases as the second one
// does.

const (
	textMark = 1 // the token, and the mark in the text; the export has raised it by one

)

type onceModel struct {
	rounds, bumps                 int
	noFloor, floorAtMark, anyFree bool // broken variants
}

type onceMessage struct {
	stage    stage
	status   core.Status
	register uint8
}

type onceNode struct {
	leased           bool
	origin, register uint8
	late             uint8 // extends that no caller waits for: 1 without a floor, 2 an exporter's with one, 4 an adopter's
	extend           onceMessage
	release          onceMessage
}

type onceState struct {
	nodes    [nNodes]onceNode
	adopter  core.Attempt
	began    bool
	released bool     // it has asked for that
	free     core.Set // the nodes of which it has heard that they are
	bumps    uint8
}

// after is a state that comes next.
type after struct {
	say   string
	state onceState
}

func (m *onceModel) initial() (all []onceState) {
	var begins [nNodes]onceNode
	var each func(n, agreed int)
	each = func(n, agreed int) {
		if n == nNodes {
			if agreed >= quorum {
				all = append(all, onceState{nodes: begins, bumps: uint8(m.bumps)})
			}
			return
		}
		// One that has agreed may have lost the lease since, and got it again by an extend that
		// came late.
		for _, at := range []onceNode{{true, 1, 2, 1, onceMessage{}, onceMessage{}}, {register: 2, late: 1}} {
			begins[n] = at
			each(n+1, agreed+1)
		}
		for _, at := range []onceNode{{leased: true, origin: 1, register: 1, late: 3}, {leased: false, register: 1, late: 3},
			{leased: true, register: 0, late: 3}, {register: 0, late: 3}} {
			begins[n] = at
			each(n+1, agreed)
		}
	}
	each(0, 0)
	return all
}

// serve has a node carry out an operation of the holder.
func (s *onceState) serve(n int, op node.Op, floor fence.Token) onceMessage {
	at := &s.nodes[n]
	e := rule.Entry{Register: fence.Token(at.register)}
	if at.leased {
		e.Holder, e.Expires, e.Origin = "A", now+ttl, fence.Token(at.origin)
	}
	reply := serve(&e, op, "A", floor, false)
	at.leased, at.origin, at.register = e.Leased(now), 0, small(e.Register)
	if at.leased {
		at.origin = small(e.Origin)
	}
	return onceMessage{answered, reply.Status, small(reply.Register)}
}

func (m *onceModel) floor() fence.Token {
	switch {
	case m.noFloor:
		return 0
	case m.floorAtMark:
		return textMark
	}
	return textMark + 1
}

// carryOut puts requests on their way. A raise moves a register, as another name does, and is an
// extend that comes late.
func (m *onceModel) carryOut(s *onceState, action core.Action) {
	for n := range nNodes {
		at := &s.nodes[n]
		switch {
		case !action.To.Has(n):
		case action.Op == core.Release:
			at.release = onceMessage{stage: request}
		case action.Op == core.Extend && action.Token == 0:
			if at.extend.stage == request { // of the round before
				at.late |= 4
			}
			at.extend = onceMessage{stage: request}
		}
	}
}

func (m *onceModel) next(s *onceState) (all []after) {
	step := func(say string, do func(s *onceState)) {
		next := after{say, *s}
		do(&next.state)
		all = append(all, next)
	}
	params := core.Params{Nodes: nNodes, TTL: ttl}
	round, _ := s.adopter.Extension()
	switch {
	case !s.began:
		step("a process adopts the lock", func(s *onceState) {
			var action core.Action
			s.adopter, action = core.NewAdoption(params, textMark, textMark)
			s.began = true
			m.carryOut(s, action)
		})
	case s.adopter.Phase() == core.Holding && !s.released:
		if int(round) < m.rounds {
			step("it extends it", func(s *onceState) { m.carryOut(s, s.adopter.StartExtend(now)) })
		}
		step("it releases it", func(s *onceState) {
			s.released = true
			m.carryOut(s, s.adopter.StartRelease(now))
		})
	}
	for n := range nNodes {
		m.nextAt(s, n, round, step)
	}
	return all
}

func (m *onceModel) nextAt(s *onceState, n int, round uint32, step func(say string, do func(s *onceState))) {
	at := s.nodes[n]
	// before has a step happen at the node, and before it what no client would notice earlier.
	before := func(say string, do func(s *onceState)) {
		for vanish := range 2 {
			for bump := range 2 {
				if vanish == 1 && !at.leased || bump > int(s.bumps) {
					continue
				}
				what := [...]string{"", "the lease vanishes; "}[vanish] + [...]string{"", "another name moves the register; "}[bump]
				step(fmt.Sprintf("node %d: %s%s", n+1, what, say), func(s *onceState) {
					if vanish == 1 {
						s.nodes[n].leased, s.nodes[n].origin = false, 0
					}
					s.nodes[n].register += uint8(bump)
					s.bumps -= uint8(bump)
					do(s)
				})
			}
		}
	}
	for _, late := range []struct {
		bit   uint8
		floor fence.Token
	}{{1, 0}, {2, textMark + 1}, {4, m.floor()}} {
		if at.late&late.bit != 0 {
			before("an extend comes late",
				func(s *onceState) { s.nodes[n].late &^= late.bit; s.serve(n, node.Extend, late.floor) })
		}
	}
	switch at.extend.stage {
	case request:
		before("carries out the adopter's extend",
			func(s *onceState) { s.nodes[n].extend = s.serve(n, node.Extend, m.floor()) })
		step(fmt.Sprintf("the adopter does not wait for its extend at node %d any more", n+1), func(s *onceState) {
			s.nodes[n].extend, s.nodes[n].late = onceMessage{}, s.nodes[n].late|4
			m.carryOut(s, s.adopter.OnExtend(n, round, 0, core.Reply{}, now))
		})
	case answered:
		step(fmt.Sprintf("the adopter hears of its extend at node %d: %s", n+1, words(at.extend.reply())),
			func(s *onceState) {
				s.nodes[n].extend = onceMessage{}
				m.carryOut(s, s.adopter.OnExtend(n, round, 0, at.extend.reply(), now))
			})
	}
	switch at.release.stage {
	case request:
		before("carries out the release", func(s *onceState) { s.nodes[n].release = s.serve(n, node.Release, 0) })
	case answered:
		step(fmt.Sprintf("the release is heard of at node %d", n+1), func(s *onceState) {
			s.nodes[n].release, s.free = onceMessage{}, s.free.With(n)
			s.adopter.OnRelease(n, at.release.reply())
		})
	}
}

// again reports whether a second adopter gets the lock.
func (m *onceModel) again(s onceState) bool {
	second, action := core.NewAdoption(core.Params{Nodes: nNodes, TTL: ttl}, textMark, textMark)
	for n := range nNodes {
		kept, gone := s, s
		gone.nodes[n].leased = false
		best := kept.serve(n, action.Op, m.floor()).reply()
		if made := gone.serve(n, action.Op, m.floor()).reply(); !second.Accepts(best) {
			best = made
		}
		second.OnExtend(n, action.Round, 0, best, now)
	}
	return second.Phase() == core.Holding
}

func (m onceMessage) reply() core.Reply {
	return core.Reply{Status: m.status, Register: fence.Token(m.register)}
}

// clean reports whether the release has succeeded.
func (m *onceModel) clean(s *onceState) bool {
	if m.anyFree {
		return s.free.Len() >= quorum
	}
	_, clean := s.adopter.ReleaseOutcome()
	return s.released && clean
}

// onceSearch goes through all states, in depth.
type onceSearch struct {
	m     *onceModel
	seed  [2]maphash.Seed
	seen  map[[2]uint64]struct{}
	path  []string
	bad   string
	clean int // states in which the release has succeeded
}

func (x *onceSearch) visit(s *onceState) {
	id := [2]uint64{maphash.Comparable(x.seed[0], *s), maphash.Comparable(x.seed[1], *s)}
	if _, seen := x.seen[id]; seen || x.bad != "" {
		return
	}
	x.seen[id] = struct{}{}
	switch {
	case x.m.clean(s):
		if x.clean++; x.m.again(*s) {
			x.bad = strings.Join(x.path, "\n")
		}
		return
	case s.adopter.Phase() == core.Over && !s.released:
		return // it is not adopted
	}
	for _, next := range x.m.next(s) {
		x.path = append(x.path, next.say)
		x.visit(&next.state)
		x.path = x.path[:len(x.path)-1]
	}
}

func (m *onceModel) search() *onceSearch {
	x := &onceSearch{m: m, seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, seen: map[[2]uint64]struct{}{}}
	for _, s := range m.initial() {
		x.visit(&s)
	}
	return x
}

func TestAdoptedOnce(t *testing.T) {
	searches := []onceModel{{rounds: 1, bumps: 1}}
	if os.Getenv("SEARCH_EXPORT") != "" { // make search-export
		searches = []onceModel{{rounds: 2}}
	}
	if !campaign {
		searches = []onceModel{{rounds: 1}}
	}
	for _, m := range searches {
		began := time.Now()
		x := m.search()
		t.Logf("%d extensions, %d moves of a register: %d states, in %d of which the release has succeeded, %.1fs",
			m.rounds, m.bumps, len(x.seen), x.clean, time.Since(began).Seconds())
		if x.bad != "" {
			t.Errorf("a text is good for a second adoption:\n%s", x.bad)
		}
	}
}

func TestRefutedAdoptedOnce(t *testing.T) {
	for name, m := range map[string]onceModel{
		"an adopter's extends have no floor, and any majority that is free is enough": {noFloor: true, anyFree: true},
		"the same with the floor":                         {anyFree: true},
		"a floor that is not past the mark":               {floorAtMark: true},
		"the release counts on a floor that is not there": {noFloor: true},
	} {
		t.Run(name, func(t *testing.T) {
			m.rounds = 1
			x := m.search()
			if x.bad == "" {
				t.Fatalf("not refuted in %d states", len(x.seen))
			}
			t.Logf("refuted after %d states:\n%s", len(x.seen), x.bad)
		})
	}
}
