package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node/rule"
)

// FuzzReplies feeds an Attempt whatever nodes could answer, in any order and at any time. There are
// duplicates, contradictions, statuses that do not exist, and numbers of any size. There are
// answers to numbers that were not asked about and to rounds that are over. Beside it, a referee
// keeps the plain list of what was answered and counts again from the start. Whatever the nodes
// say, a lock is held only by a quorum's word for one number, and not for longer than that quorum's
// leases.
//
// A node's index is not the nodes' to say: the caller counts them, and an
// Attempt takes it on trust.
func FuzzReplies(f *testing.F) {
	const g, h, l, o, r, u = byte(core.Granted), byte(core.Held), byte(core.Lost), byte(core.Outrun), byte(core.Rejoining),
		byte(core.Unknown)
	for _, seed := range [][]byte{
		{},
		// three nodes, agreed
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0},
		// confirmed
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 9, 0, onConfirm, g, 0, 0, 0, onConfirm, g, 1, 0, 0},
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 9, 0, onConfirm, o, 0, 12, 0, onConfirm, o, 1, 15, 0, onConfirm,
			g, 0, 0, 0}, // outrun
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, h, 1, 0, 0, onAcquire, h, 2, 0, 0, onRelease, g, 0, 0, 0, onRelease, l,
			1, 0, 0}, // contended
		// no quorum, late
		{2, 0, 0, 0, onAcquire, u, 0, 0, 0, onAcquire, u, 1, 0, 0, onAcquire, g, 2, 7, 0},
		// rejoining, nonsense
		{2, 0, 0, 0, onAcquire, r, 0, 0, 0, onAcquire, r, 1, 0, 0, onAcquire, 200, 2, 7, 0},
		// said twice
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 0, 9, 0, onAcquire, g, 1, 9, 0},
		// too late
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 250},
		// expired
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doTick, 0, 0, 0, 250, doRelease, 0, 0, 0, 0},
		// held for the maximum
		{2, 0, 4, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doTick, 0, 0, 0, 120},
		{0, 0, 0, 0, onAcquire, g, 0, 255, 0, doExtend, 0, 0, 0, 9, onExtend, g, 0, 255, 0, doExtend, 0, 0, 0, 9, onExtend, l,
			0, 0, 0}, // one node
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doExtend, 0, 0, 0, 9, onExtend, g, 0, 7, 0, onExtend, g, 1,
			9, 0}, // carried
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doExtend, 0, 0, 0, 9, onExtend, g, 2, 9, 0, onExtend, g, 0,
			7, 0}, // proves nothing
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doExtend, 0, 0, 0, 9, onExtend, l, 2, 0, 0, onExtend, l, 0,
			0, 0}, // taken
		// cancelled, late
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, doCancel, 0, 0, 0, 0, onAcquire, g, 1, 7, 0, onAcquire, u, 2, 0, 0},
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doRelease, 0, 0, 0, 0, onAcquire, h, 2, 0, 0, onRelease, g,
			0, 0, 0}, // released
		{8, 3, 0, 1, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, onAcquire, g, 2, 8, 0, onAcquire, g, 3, 8, 0, onAcquire, g,
			4, 7, 0}, // nine nodes
		// another number, twice
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 9, 0, onConfirm | 128, g, 0, 0, 8, onConfirm | 128, g, 1, 0, 8},
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doExtend, 0, 0, 0, 9, onExtend, g, 0, 7, 20, onExtend, g,
			1, 7, 20}, // carried late
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doExtend, 0, 0, 0, 9, doExtend, 0, 0, 0, 9, onExtend | 128,
			l, 0, 0, 0, onExtend | 128, l, 1, 0, 0}, // an earlier round
		{2, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doExtend, 0, 0, 0, 9, onExtend, l, 0, 0, 0, onExtend, u, 1,
			0, 0, onExtend, u, 2, 0, 0}, // not taken
		// valid to the maximum hold
		{2, 0, 2, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doTick, 0, 0, 0, 120},
		{4, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 8, 0, onAcquire, g, 2, 9, 0, onConfirm, g, 0, 1, 0,
			onConfirm | 128, g, 1, 0, 8}, // another number
		{1, 0, 0, 0, onAcquire, g, 0, 7, 0, onAcquire, g, 1, 7, 0, doExtend, 0, 0, 0, 9, onExtend, g, 0, 7, 0, doExtend, 0, 0,
			0, 9, onExtend | 128, g, 1, 7, 0}, // an earlier round carried late
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) < 4 {
			return
		}
		w := newReferee(t, input[:4])
		for rest := input[4:]; len(rest) >= 5 && len(w.log) < 400; rest = rest[5:] {
			w.step(rest[0], rest[1], rest[2], rest[3], rest[4])
			w.check()
		}
	})
}

// What a step's first byte stands for.
const (
	onAcquire byte = iota
	onConfirm
	onExtend
	onRelease
	doExtend
	doRelease
	doCancel
	doTick
	steps
)

// In the log; what says nothing of a node is the client's own.
var stepNames = [steps]string{"an acquire answered", "a confirm answered", "an extend answered", "a release answered",
	"extends", "releases", "cancels", "looks at the clock"}

// referee is an Attempt, and what has been said to it.
type referee struct {
	t       *testing.T
	attempt core.Attempt
	nodes   int
	ttl     time.Duration
	maxHold time.Duration
	now     time.Duration
	log     []string

	grants map[fence.Token]core.Set // nodes that granted an acquire with a number
	said   core.Set                 // nodes that answered an acquire or the latest confirm, in a way that counts
	asked  fence.Token              // that is being confirmed
	yes    core.Set                 // nodes that have confirmed it

	round    uint32
	began    []time.Duration       // the rounds
	accepted [core.MaxNodes]uint32 // the latest round that each node accepted
	extended core.Set              // nodes that accepted it
	refused  core.Set              // nodes that refused it, or have a lease that does not count
	floor    fence.Token           // what the mark is raised to
	from     uint32                // the round in which that began
	ends     time.Duration         // when it is given up
	agreed   core.Set              // nodes that did
	mark     fence.Token
	without  core.Set // nodes that refused the acquire
	free     core.Set // nodes that cannot have the lease any more, as far as said after the release

	bound    time.Duration // the latest end of the validity that was earned
	held     bool
	token    fence.Token
	over     core.Reason
	releases int
}

func newReferee(t *testing.T, head []byte) *referee {
	w := &referee{t: t, nodes: 1 + int(head[0])%9, now: start, grants: map[fence.Token]core.Set{}}
	w.ttl = []time.Duration{testTTL, 100 * time.Millisecond, time.Millisecond, 24 * time.Hour}[head[1]%4]
	w.maxHold = w.ttl / 4 * time.Duration(head[2]%64) // 0: unbounded
	p := core.Params{Nodes: w.nodes, TTL: w.ttl, MaxHold: w.maxHold, Start: start, Proposal: fence.Token(head[3])}
	var action core.Action
	w.attempt, action = core.NewAttempt(p)
	w.actions(action, core.Acquire)
	if action.To.Len() != w.nodes || action.Token != p.Proposal {
		t.Fatalf("the first action is %+v", action)
	}
	w.bound = start + w.ttl - w.ttl/100 - 2*time.Millisecond
	return w
}

// number makes a register of a byte: small ones that meet, and huge ones.
func number(b byte) fence.Token {
	if b >= 250 {
		return []fence.Token{rule.MaxProposal, fence.MaxToken, fence.MaxToken + 1, 1 << 63, 1<<64 - 2, 1<<64 - 1}[b-250]
	}
	return fence.Token(b % 32)
}

// step lets one thing happen, after some time.
func (w *referee) step(kind, status, which, value, wait byte) {
	node, reply := int(which)%w.nodes, core.Reply{Status: core.Status(status), Register: number(value)}
	if status < 128 {
		reply.Status = core.Status(status % 8)
	}
	stale := kind >= 128 // an answer to something else than the latest question
	// Up to about a TTL, in steps that hit the end of the validity.
	w.now += w.ttl / 240 * time.Duration(wait)
	if wait == 255 {
		w.now = max(w.now, w.attempt.Until()-1)
	}
	before := w.attempt.Phase()
	what := stepNames[kind%steps]
	w.log = append(w.log, fmt.Sprintf("%v: %s, node %d, %+v, stale %v (%d)", w.now, what, node, reply, stale, wait))
	switch kind % steps {
	case onAcquire:
		switch reply.Status {
		case core.Granted:
			w.grants[reply.Register] = w.grants[reply.Register].With(node)
			w.said = w.said.With(node)
		case core.Held:
			w.said = w.said.With(node)
		}
		if reply.Status == core.Held || reply.Status == core.Rejoining {
			w.without = w.without.With(node)
		}
		if before == core.Over && w.without.Has(node) {
			w.free = w.free.With(node)
		}
		w.actions(w.attempt.OnAcquire(node, reply, w.now), core.Confirm, core.Release)
	case onConfirm:
		asked := w.asked
		if stale {
			asked = number(wait)
		}
		if before == core.Confirming && asked == w.asked {
			switch reply.Status {
			case core.Granted:
				w.yes, w.said = w.yes.With(node), w.said.With(node)
			case core.Outrun, core.Lost:
				w.said = w.said.With(node)
			}
		}
		w.actions(w.attempt.OnConfirm(node, asked, reply, w.now), core.Confirm, core.Release)
	case onExtend:
		round := w.round
		if stale {
			round -= 1 + uint32(wait%2)
		}
		if round == 0 {
			return // no node was ever asked
		}
		asked := fence.Token(0)
		if kind%32 >= 16 { // an answer to an extend that raises the mark
			if asked = w.floor; stale {
				asked = number(wait)
			}
		}
		answers := reply.Status == core.Granted && reply.Register <= w.mark && before == core.Holding &&
			w.now < w.attempt.Until()
		switch {
		case asked != 0:
			if asked == w.floor && round >= w.from && w.now < w.ends && answers {
				w.agreed = w.agreed.With(node)
			}
		case answers:
			w.accepted[node] = max(w.accepted[node], round)
			if round == w.round {
				w.extended = w.extended.With(node)
			}
		case round == w.round && (reply.Status == core.Granted || reply.Status == core.Lost):
			w.refused = w.refused.With(node)
		}
		if before == core.Over && reply.Status == core.Lost {
			w.free = w.free.With(node) // by what it was asked before the release
		}
		action := w.attempt.OnExtend(node, round, asked, reply, w.now)
		w.actions(action, core.Release, core.Extend)
		if action.Op == core.Extend {
			raising := w.floor > w.mark && w.now < w.ends
			late := round != w.round && asked == 0
			switch known := w.extended.With(node); {
			case raising && action.Token == w.floor && action.To == core.Set(0).With(node) && answers:
			case raising, action.Token <= w.mark, late && action.To != known, !late && action.To != w.extended,
				!late && w.extended.Len() < w.nodes/2+1:
				w.fail("raises by %+v", action)
			default:
				w.floor, w.from, w.agreed = action.Token, w.round, 0
				w.ends = w.now + w.ttl - w.ttl/100 - 2*time.Millisecond
			}
		}
		if w.agreed.Len() > w.nodes/2 {
			w.mark = max(w.mark, w.floor)
		}
	case onRelease:
		if before != core.Over {
			return // no node was ever asked
		}
		if reply.Status == core.Granted || reply.Status == core.Lost {
			w.free = w.free.With(node)
		}
		w.attempt.OnRelease(node, reply)
	case doExtend:
		action := w.attempt.StartExtend(w.now)
		w.actions(action, core.Extend)
		if action.Op == core.Extend {
			if action.Round != w.round+1 || action.Token != 0 || w.now >= w.bound {
				w.fail("extends by %+v", action)
			}
			w.round, w.began = action.Round, append(w.began, w.now)
			w.extended, w.refused = 0, 0
		}
	case doRelease:
		action := w.attempt.StartRelease(w.now)
		w.actions(action, core.Release)
		if action.Op == core.Release {
			w.releases++
			w.free = 0
		}
		if w.releases > 1 {
			w.fail("released twice")
		}
	case doCancel:
		w.actions(w.attempt.Cancel(), core.Release)
	case doTick:
		w.attempt.Tick(w.now)
	}
}

// actions checks what is to be sent: only what may follow, to nodes that exist.
func (w *referee) actions(a core.Action, allowed ...core.Op) {
	if a == (core.Action{}) {
		return
	}
	if !slices.Contains(allowed, a.Op) || a.To>>w.nodes != 0 || (a.Op == core.Extend) != (a.Round != 0) {
		w.fail("the action %+v; allowed are %v", a, allowed)
	}
	if a.Op == core.Confirm {
		if a.Token <= w.asked && w.asked != 0 || w.attempt.Phase() != core.Confirming {
			w.fail("the action %+v, after a confirm of %d", a, w.asked)
		}
		w.asked, w.yes = a.Token, 0
	}
}

// check compares the Attempt with what the referee makes of the answers.
func (w *referee) check() {
	a, quorum := &w.attempt, w.nodes/2+1
	phase, reason := a.Phase(), a.Reason()
	if (phase == core.Over) != (reason != core.NotOver) || w.over != core.NotOver && reason != w.over ||
		w.held != a.WasHeld() && w.held {
		w.fail("phase %d, reason %d; it was %d, held %v", phase, reason, w.over, w.held)
	}
	w.over = reason
	if a.WasHeld() && !w.held {
		w.held, w.token, w.mark = true, a.Token(), a.Token()
		if w.grants[w.token].Len() < quorum && (w.token != w.asked || w.yes.Len() < quorum) {
			w.fail("holds with token %d, which %d have granted and %d confirmed", w.token, w.grants[w.token].Len(), w.yes.Len())
		}
		if w.now >= w.bound {
			w.fail("holds from %v on, and was valid until %v", w.now, w.bound)
		}
	}
	if w.held {
		if a.Token() != w.token {
			w.fail("the token was %d and is %d", w.token, a.Token())
		}
		for i, began := range w.began {
			accepted := 0 // by so many, or a later one
			for _, round := range w.accepted {
				if round > uint32(i) {
					accepted++
				}
			}
			if accepted >= quorum {
				w.bound = max(w.bound, began+w.ttl-w.ttl/100-2*time.Millisecond)
			}
		}
		limit := w.bound
		if w.maxHold > 0 {
			limit = min(limit, start+w.maxHold)
		}
		if a.Until() > limit {
			w.fail("valid until %v; earned was %v", a.Until(), limit)
		}
	}
	round, state := a.Extension()
	if round != w.round || state == core.Carried && (w.extended.Len() < quorum || round == 0) {
		w.fail("round %d is %d; %d accepted round %d", round, state, w.extended.Len(), w.round)
	}
	if due, ever := a.ExtendDue(); ever && (phase != core.Holding || due < start) {
		w.fail("the next extension is due at %v in phase %d", due, phase)
	}
	switch reason {
	case core.Contended:
		if w.said.Len() < quorum {
			w.fail("contended by the word of %d", w.said.Len())
		}
	case core.Taken:
		if w.nodes-w.refused.Len() >= quorum {
			w.fail("taken by the word of %d", w.refused.Len())
		}
	case core.Expired, core.HeldTooLong:
		if w.now < a.Until() {
			w.fail("over at %v, and valid until %v", w.now, a.Until())
		}
	case core.LetGo:
		if w.releases == 0 {
			w.fail("let go without a release")
		}
	}
	if _, clean := a.ReleaseOutcome(); w.releases > 0 && clean && w.free.Len() < quorum {
		w.fail("released by the word of %d", w.free.Len())
	}
}

func (w *referee) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%d nodes, TTL %v, at most %v: %s\n%s", w.nodes, w.ttl, w.maxHold, fmt.Sprintf(format, args...),
		strings.Join(w.log, "\n"))
}
