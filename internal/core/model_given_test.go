package core_test

import (
	"encoding/binary"
	"math/bits"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	prooftrace "github.com/fenlock/fenlock/internal/proof/trace"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// An attempt that waits asks no node. It holds by what nodes have given to it (core.Given), and is
// an attempt as any other from then on.
//
// It is in each node's queue all the time. Leases vanish at any moment. So a node may carry out a
// release, with any proposal, whenever that suits, and gives the name then, more than once. With
// what else becomes of the waiter's place in the queue there is less that is given, and nothing
// that is not here. To give something back, and to give up, is not to hear of it: the leases vanish
// anyway. The waiter's own attempts that ask are others, with other holders: to what is given they
// are as any client's. That a lease must not be gone as long as it is believed in is not looked at
// here, but in TestGivenExclusion.

// gifts is what an attempt that waits has of it.
type gifts struct {
	waits    bool
	gives    [nNodes]uint8  // how often each node has given the name to it
	noticed  [nNodes]uint8  // the largest number that it has heard of
	notices  [nNodes]uint16 // those on their way, a bit for each number
	outdated [nNodes]uint16 // those given before a node lost its memory
}

// waiter is who stands in the queues.
func waiter(i int) string { return name(i) + ":1" }

// givenHolders spares making them again and again.
var givenHolders = func() (all [maxAttempts][16]node.Holder) {
	for i := range all {
		for number := range all[i] {
			all[i][number] = node.Given(waiter(i), fence.Token(number))
		}
	}
	return all
}()

// holder is the attempt's, in its requests.
func (a *attempt) holder(i int) node.Holder {
	if a.waits {
		return givenHolders[i][a.core.Token()]
	}
	return holder(i)
}

// leaseHolder is the holder of a lease of the attempt's. Each number that was given has a holder of
// its own. The number that became the lock's token has the others forgotten, see take.
func (a *attempt) leaseHolder(i int, origin uint8) node.Holder {
	if a.isWaiting() {
		return givenHolders[i][origin]
	}
	return a.holder(i)
}

func (a *attempt) isWaiting() bool { return a.waits && a.core.Phase() == core.Acquiring }

// giveMoves appends that a node gives the name to the attempt, and that this hears of it. Once it
// holds, only its token is of interest: another number is a register that moves and a name that is
// kept.
func (m *model) giveMoves(s *state, i int, moves []move) []move {
	a := &s.attempts[i]
	if !a.waits || !m.alive(s, i) {
		return moves
	}
	for n := range nNodes {
		at := &s.nodes[n]
		for left := a.notices[n]; left != 0; left &= left - 1 {
			moves = append(moves, move{kind: hearNotice, who: uint8(i<<4 | n), arg: uint8(bits.TrailingZeros16(left))})
		}
		if at.out && !m.broken.votesOut || int(a.gives[n]) >= m.gives {
			continue
		}
		for _, p := range m.proposals {
			for bump := range min(s.bumps, 1) + 1 {
				if !a.isWaiting() && fence.Token(max(at.register+bump+1, p)) != a.core.Token() {
					continue
				}
				// If the name is leased, its holder's release it is.
				moves = append(moves, move{kind: give, who: uint8(i<<4 | n), arg: p}.before(at.leased() != 0, bump))
			}
		}
	}
	return moves
}

// reachable is a queue of waiters that can be told.
type reachable struct{ rule.Waiters }

func (*reachable) Renew()                {}
func (*reachable) Reachable(string) bool { return true }

// give has a node carry out a release, with the attempt in its queue.
func (m *model) give(s *state, mv move, t *trace) {
	i, n := mv.attempt(), mv.node()
	a := &s.attempts[i]
	e := s.entry(n)
	before, out := e.Register, e.Out
	e.Out = out && !m.broken.votesOut
	e.Holder, e.Expires = "releases", now+ttl
	q := &reachable{rule.Waiters{{Waiter: waiter(i), Stamp: 1}}}
	_, told := rule.ServeShared(&e, q, now, node.Request{Op: node.Release, Holder: e.Holder, Next: fence.Token(mv.arg)})
	notice, ok := node.ParseNotice(told[0])
	if !ok || notice.Waiter != waiter(i) || e.Holder != node.Given(waiter(i), notice.Number) {
		panic("it is not given: " + told[0])
	}
	if m.broken.givesUnmoved && before > 0 {
		e.Register, e.Origin, notice.Number = before, before, before
	}
	was := s.entry(n)
	m.tie.served(prooftrace.Release, n, 0, 0, false, &was, &e, core.Reply{Status: core.Granted}, 0)
	e.Out = out
	a.gives[n]++
	if a.isWaiting() {
		a.notices[n] |= 1 << notice.Number
	}
	s.setEntry(n, e)
	t.say("node %d carries out a release that proposes %d, and gives the name to %s with %d", n+1, mv.arg, name(i),
		notice.Number)
}

// hearNotice has the attempt hear of what was given to it, and hold if that is enough.
func (m *model) hearNotice(s *state, mv move, t *trace) (violation string) {
	i, n := mv.attempt(), mv.node()
	a := &s.attempts[i]
	a.notices[n] &^= 1 << mv.arg
	t.say("%s hears that node %d has given the name to it with %d", name(i), n+1, mv.arg)
	var g core.Given
	for k := range nNodes {
		g.Refused(k, now, now, 0, 0)
		if a.noticed[k] != 0 {
			g.Told(k, fence.Token(a.noticed[k]), now, now)
		}
	}
	g.Told(n, fence.Token(mv.arg), now, now)
	a.noticed[n] = max(a.noticed[n], mv.arg)
	number, until, ok := g.Best(nNodes, now)
	if heard := m.heardBroken(a); heard != 0 {
		number, until, ok = heard, now+ttl, true
	}
	if !ok {
		return ""
	}
	a.core = core.NewGiven(core.Params{Nodes: nNodes, TTL: ttl}, number, until)
	for k := range s.nodes {
		if at := &s.nodes[k]; at.has(i) && fence.Token(at.origins[i]) != number {
			at.drop(1 << i) // another holder's
		}
	}
	t.say("%s holds with token %d", name(i), number)
	return m.wrongToken(s, i)
}

// heardBroken is the number by which an attempt holds under broken rules, 0 if it does not.
func (m *model) heardBroken(a *attempt) (number fence.Token) {
	count := 0
	for _, heard := range a.noticed {
		if heard != 0 {
			count++
		}
		number = max(number, fence.Token(heard))
	}
	if m.broken.takesByFew || m.broken.takesLargest && count >= quorum {
		return number
	}
	return 0
}

// age notes what was given before a node has lost its memory.
func (a *attempt) age() {
	for n := range nNodes {
		a.outdated[n] = a.notices[n] | 1<<a.noticed[n]
	}
}

// expire forgets that, when the leases of that time have ended for sure: a node that has lost its
// memory is not rebuilt before.
func (a *attempt) expire() {
	for n := range nNodes {
		a.notices[n] &^= a.outdated[n]
		if a.outdated[n]&(1<<a.noticed[n]) != 0 {
			a.noticed[n] = 0
		}
		a.outdated[n] = 0
	}
}

// forgetGifts drops what makes no difference any more. Nothing is taken twice, and what is given is
// of use to a client that extends a lock, or gets one.
func (a *attempt) forgetGifts(m *model, alive bool) {
	if !a.isWaiting() {
		a.gifts = gifts{waits: a.waits, gives: a.gives}
	}
	if !alive || !a.isWaiting() && m.rounds == 0 {
		a.gives = [nNodes]uint8{}
	}
	if m.losses == 0 {
		a.outdated = [nNodes]uint16{}
	}
}

func (g *gifts) append(b []byte, n int) []byte {
	if !g.waits {
		return b
	}
	b = append(b, g.gives[n], g.noticed[n])
	b = binary.LittleEndian.AppendUint16(b, g.notices[n])
	return binary.LittleEndian.AppendUint16(b, g.outdated[n])
}
