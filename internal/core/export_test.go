package core

import (
	"encoding/binary"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// What the exhaustive check and the tests need to see of an Attempt. Nothing
// here is in the shipped code.

// AppendState appends what the future of the attempt depends on. It leaves out what is the same for
// a particular node (see AppendNode), and every time. The exhaustive check runs with a clock that
// stands still. Without extensions a tenure has no future but its token, and in the last one no
// raise begins.
func (a *Attempt) AppendState(b []byte, extensions int) []byte {
	b = append(b, byte(a.phase))
	switch {
	case a.phase == Acquiring:
		b = append(b, Flags(a.params.Waits)) // see Hurry
	case a.phase == Confirming:
		b = append(b, byte(a.token), byte(a.highest))
	case (a.phase == Holding || a.phase == Adopting) && extensions > 0:
		raising, raises := a.floor > a.mark, a.highest > a.mark && int(a.round) < extensions
		b = append(b, byte(a.token), byte(a.round), Flags(a.extended, raising, raises), byte(a.mark), byte(a.wanted))
		if raises {
			b = append(b, byte(a.highest))
		}
		if raising {
			b = append(b, byte(a.floor), byte(a.raiseFrom))
		}
	case a.WasHeld():
		b = append(b, byte(a.token))
	}
	return b
}

// AppendNode appends what the future of the attempt depends on and belongs to
// one node.
func (a *Attempt) AppendNode(b []byte, node int, extensions bool) []byte {
	votes := Flags(a.votes.yes.Has(node), a.votes.no.Has(node), a.votes.unknown.Has(node))
	switch a.phase {
	case Acquiring:
		return append(b, byte(a.granted[node]), Flags(a.acquire.yes.Has(node), a.acquire.no.Has(node),
			a.acquire.unknown.Has(node), a.leaseless.Has(node), a.silent.Has(node)))
	case Confirming:
		b = append(b, votes, Flags(a.leaseless.Has(node), a.acquire.no.Has(node), a.silent.Has(node)))
	case Holding:
		if extensions {
			if a.extended { // a refusal changes nothing any more
				votes = Flags(a.votes.yes.Has(node))
			}
			b = append(b, votes)
			if a.floor > a.mark {
				b = append(b, Flags(a.raised.Has(node)))
			}
		}
	case Adopting:
		b = append(b, votes)
	}
	return b
}

// MayHurry reports whether Hurry changes something.
func (a *Attempt) MayHurry() bool {
	return a.phase == Acquiring && a.params.Waits && a.hopeless(a.acquire)
}

// IsSilent reports whether a node has not answered the acquire in time, and still may.
func (a *Attempt) IsSilent(node int) bool { return a.silent.Has(node) }

// AppendRounds appends what belongs to one node and matters to answers that come late, and to
// rounds that go on.
func (a *Attempt) AppendRounds(b []byte, node int) []byte {
	r := &a.rounds
	raising := a.floor > a.mark
	return append(b, byte(r.last[node]), byte(r.first), Flags(r.open.Has(node), r.asked.Has(node),
		raising && a.unagreed.Has(node)))
}

// Sure returns the latest round from whose start the validity may be counted, 0 if none.
func (a *Attempt) Sure() uint32 {
	if a.round == 0 {
		return 0
	}
	if sure := a.rounds.sure(a.params.Nodes, a.quorum()); sure >= a.rounds.first {
		return sure
	}
	return 0
}

// Open returns the nodes that have not answered the latest extend.
func (a *Attempt) Open() Set { return a.rounds.open }

// Matters reports whether it matters that a node accepts a round, or an earlier one, that was not
// the latest.
func (a *Attempt) Matters(node int, round uint32) bool {
	return round >= a.rounds.first && round > a.rounds.last[node]
}

// StartNow is for the variant that counts a validity from when an answer comes.
func (a *Attempt) StartNow(round uint32, now time.Duration) {
	if a.rounds.begun[round%remembered] = now; round == a.round {
		a.roundStart = now
	}
}

// CountAll is for the variants that count late answers whatever has been since.
func (a *Attempt) CountAll() { a.rounds.first, a.rounds.shares, a.rounds.willShare = 0, false, false }

// Flags packs bits into a byte, the first one lowest.
func Flags(bits ...bool) byte {
	var b byte
	for i, set := range bits {
		if set {
			b |= 1 << i
		}
	}
	return b
}

// Mark returns the mark, and what it is or was raised to last, 0 if a round has begun since.
func (a *Attempt) Mark() (mark, floor fence.Token) { return a.mark, a.floor }

// Raising reports whether a raise is under way, and in which round it began.
func (a *Attempt) Raising() (from uint32, ok bool) { return a.raiseFrom, a.floor > a.mark }

// HasAgreed reports whether the node has agreed to the raise that is under way.
func (a *Attempt) HasAgreed(node int) bool { return a.raised.Has(node) }

// EndRaise gives up a raise, as time does.
func (a *Attempt) EndRaise() { a.floor, a.raised, a.unagreed = 0, 0, 0 }

// RaiseAnew forgets when a raise began. It is for the variant that counts answers to one that was
// given up.
func (a *Attempt) RaiseAnew() { a.raiseFrom = 0 }

// SetMark is for the variants that raise the mark too early.
func (a *Attempt) SetMark(mark fence.Token) { a.mark = mark }

// Renumber has the rounds of an adoption be numbered from one past the exporter's. So the messages
// of both can be told apart in one state. The numbers do nothing else.
func (a *Attempt) Renumber(action Action, exporters uint32) Action {
	a.round += exporters
	a.rounds.begun[a.round%remembered] = a.roundStart
	action.Round += exporters
	return action
}

// HoldAtOnce is for the variant that does not wait for its first extension.
func (a *Attempt) HoldAtOnce() { a.phase, a.until = Holding, Validity(a.params.Start, a.params.TTL) }

// Granted returns what the node granted, 0 for nothing.
func (a *Attempt) Granted(node int) fence.Token { return a.granted[node] }

// Rebase takes base off all numbers of the attempt. Registers are compared and
// counted up, so that attempts which differ only by it have the same future.
func (a Attempt) Rebase(base fence.Token) Attempt {
	a.token -= base
	a.highest -= base
	for node := range a.granted {
		a.granted[node] -= base
	}
	return a
}

// AppendState appends what the future of the retry depends on, without what
// belongs to one node: see IsNotified.
func (t *Retry) AppendState(b []byte, now time.Duration) []byte {
	b = append(b, byte(t.vain), Flags(t.missed, t.refused, t.polls))
	if t.refused {
		b = binary.AppendVarint(b, int64(t.due-now))
	}
	if t.polls {
		b = binary.AppendVarint(b, int64(min(now-t.since, pollShare*longestPoll)))
		b = binary.AppendVarint(b, int64(min(now-t.due, longestPoll)))
	}
	return b
}

// IsNotified reports whether the node has notified since the attempt began.
func (t *Retry) IsNotified(node int) bool { return t.notified.Has(node) }
