package core_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	prooftrace "github.com/fenlock/fenlock/internal/proof/trace"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// tie has each move of the model be steps of a model that is proved: see package trace. One state
// of the search has one history there, that by which it was reached first. What else can lead to it
// has the same future.
type tie struct {
	mc    *prooftrace.Machine
	frame *prooftrace.Frame
	group *prooftrace.Group
	now   prooftrace.Small
	err   error
	x     [2]prooftrace.Node
}

const (
	operator   = maxAttempts // its holder, to the model that is proved
	firstGiven = maxAttempts + 1
	numbers    = 16 // tokens and registers
)

func newTie(m *model) *tie {
	mc := prooftrace.Of("tokens.model")
	if m.shares || m.downgrade {
		mc = prooftrace.Of("shared.model")
	}
	size := map[string]int{"node": nNodes, "holder": firstGiven, "round": maxAttempts * (maxRounds + 1), "number": numbers,
		"kind": 1}
	if m.gives > 0 {
		size["holder"] += maxAttempts * numbers
	}
	var without []string
	if !m.exports {
		without = []string{"text", "text-at"}
	}
	t := &tie{mc: mc, frame: mc.NewFrame(size, without...)}
	t.now = prooftrace.Small{Frame: t.frame, B: make([]byte, t.frame.Bytes)}
	t.group = mc.NewGroup(t.now, nNodes)
	t.group.Silent = true
	return t
}

func (t *tie) took(err error) {
	if t.err == nil && err != nil {
		t.err = err
	}
}

func roundID(i int, round uint32) uint64 {
	if round == 0 {
		return 0
	}
	return uint64(i*(maxRounds+1)) + uint64(round)
}

// holderID is the attempt's holder.
func (a *attempt) holderID(i int) uint64 {
	if a.waits {
		return givenID(i, uint64(a.core.Token()))
	}
	return uint64(i)
}

func givenID(i int, number uint64) uint64 { return uint64(firstGiven+i*numbers) + number }

// held is what is seen of an attempt.
func (a *attempt) held(i int) (h prooftrace.Held) {
	round, state := a.core.Extension()
	h.Holding, h.Adopting = a.core.WasHeld(), a.core.Phase() == core.Adopting
	h.Token, h.Round, h.Carried, h.Sure = uint64(a.core.Token()), roundID(i, round), state == core.Carried, roundID(i,
		a.core.Sure())
	if h.Holding || h.Adopting {
		mark, _ := a.core.Mark()
		h.Mark = uint64(mark)
	}
	return h
}

// adopts is an attempt that has just begun to adopt a lock, and what it was then.
func (t *tie) adopts(a *attempt, i int) prooftrace.Held {
	round, _ := a.core.Extension()
	k := roundID(i, round)
	t.group.NewRound(k, a.holderID(i), uint32(a.shared) <= round)
	t.took(t.group.Starts(k))
	return prooftrace.Held{Adopting: true, Token: uint64(a.core.Token()), Mark: uint64(a.offered), Round: k}
}

// told is an attempt after a move.
func (t *tie) told(a *attempt, i int, before prooftrace.Held) {
	if t == nil {
		return
	}
	after := a.held(i)
	if before.Adopting && !before.Holding && a.core.Phase() == core.Over {
		after.Holding = false // it was not adopted, though the core calls it taken
	}
	if after.Round != before.Round {
		round, _ := a.core.Extension()
		t.group.NewRound(after.Round, a.holderID(i), uint32(a.shared) <= round)
	}
	if after == before {
		return
	}
	t.took(t.group.Told(a.holderID(i), &before, &after, uint64(a.offered)))
}

func (t *tie) see(x *prooftrace.Node, e *rule.Entry) {
	*x = prooftrace.Node{Register: uint64(e.Register), Leases: x.Leases[:0]}
	switch {
	case e.Holder == "" || now >= e.Expires || e.Holder.Reserves():
	case e.Holder.Shared():
		first, rest, _ := strings.Cut(strings.TrimPrefix(string(e.Holder), node.SharedPrefix), "\n")
		x.Epoch, _ = strconv.ParseUint(first, 10, 64)
		for line := range strings.Lines(rest) {
			fields := strings.Fields(line)
			if i := int(fields[3][0]) - 'A'; i < maxAttempts {
				origin, _ := strconv.ParseUint(fields[1], 10, 64)
				x.Leases = append(x.Leases, prooftrace.Lease{Holder: uint64(i), Origin: origin})
			}
		}
		x.Sharing = len(x.Leases) > 0 || x.Epoch != 0
	default:
		x.Leases = append(x.Leases, prooftrace.Lease{Holder: entryHolder(e), Origin: uint64(e.Origin)})
	}
}

func entryHolder(e *rule.Entry) uint64 {
	for i := range maxAttempts {
		if e.Holder == holder(i) {
			return uint64(i)
		}
		for number, given := range givenHolders[i] {
			if e.Holder == given {
				return givenID(i, uint64(number))
			}
		}
	}
	panic(fmt.Sprintf("whose lease is %q?", string(e.Holder)))
}

// served is an operation that a node has carried out.
func (t *tie) served(op prooftrace.Op, n int, holder, token uint64, reads bool, before, after *rule.Entry, r core.Reply,
	round uint64) {
	if t == nil || r.Status != core.Granted && *before == *after {
		return
	}
	d := prooftrace.Served{Node: n, Op: op, Holder: holder, Token: token, Reads: reads, Granted: r.Status == core.Granted,
		Counts: true,
		Answer: uint64(r.Register), Before: &t.x[0], After: &t.x[1]}
	if round != 0 {
		d.Rounds = []uint64{round}
	}
	t.see(d.Before, before)
	t.see(d.After, after)
	t.took(t.group.Serve(&d))
}

// roundOf is the extension whose request a node carries out: the latest, or the last before its
// holder let others share the name.
func (a *attempt) roundOf(i int, asked uint8) uint64 {
	round, _ := a.core.Extension()
	if asked < a.shared && uint32(a.shared) <= round {
		round = uint32(a.shared) - 1
	}
	return roundID(i, round)
}

func (t *tie) begins(holder uint64) {
	if t != nil && !t.group.Begun(holder) {
		t.took(t.group.Begin(holder))
	}
}

// read is a register that is read for the node that is out.
func (t *tie) read(s *state, n int) {
	if t == nil {
		return
	}
	for out := range s.nodes {
		if s.nodes[out].out {
			t.took(t.group.Waited(out))
			t.took(t.group.Seen(n, uint64(s.nodes[n].register)))
			t.took(t.group.Do("rebuild", uint64(out), uint64(n)))
		}
	}
}

// forcedBy is a forced release that is done by now.
func (m *model) forcedBy(s *state, before bool) {
	if m.tie != nil && !before && m.released(s) {
		_, number := s.force()
		m.tie.took(m.tie.group.Forced(operator, uint64(number)))
	}
}

// canonical takes over what a state leaves out, because nothing depends on it any more: see forget.
func (t *tie) canonical(s *state) {
	for n := range s.nodes {
		for i := range maxAttempts {
			if s.nodes[n].has(i) {
				a := &s.attempts[i]
				id := uint64(i)
				if a.isWaiting() {
					id = givenID(i, uint64(s.nodes[n].origins[i]))
				} else if a.waits {
					id = a.holderID(i)
				}
				t.group.SetOrigin(uint64(n), id, uint64(s.nodes[n].origins[i]))
			}
		}
	}
}

// TestStepsOfTheSearch has each move of the search be one of the models that are proved.
func TestStepsOfTheSearch(t *testing.T) {
	one := []uint8{1}
	searches := []exploration{
		{"registers differ", model{proposals: []uint8{1, 2, 3}, reserves: true, tied: true}, 100_000},
		{"one extension each", model{proposals: one, rounds: 1, reserves: true, tied: true}, 300_000},
		{"a forced release", model{attempts: 1, proposals: one, rounds: 2, force: true, reserves: true, tied: true}, 50_000},
		{"names are shared", model{proposals: one, shares: true, inTurn: true, reserves: true, tied: true}, 1},
		{"a lock is exported", model{attempts: 1, proposals: one, rounds: 3, exports: true, tied: true}, 1},
		{"the name is given", model{proposals: one, gives: 1, inTurn: true, tied: true}, 1},
		{"one loss of memory", model{proposals: one, losses: 1, inTurn: true, tied: true}, 1},
	}
	for _, s := range searches {
		t.Run(s.name, func(t *testing.T) {
			if r := explore(t, &s.model, time.Now().Add(2*time.Minute)); r.States < s.atLeast {
				t.Errorf("only %d states", r.States)
			}
		})
	}
}
