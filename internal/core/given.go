package core

import (
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/rule"
)

// A node can give the name to the first in its queue when it carries out a release (package rule,
// "give"). It does what an acquire of that waiter's would do which comes at this moment. So a
// waiter that a quorum has told the same number holds the lock, half a round trip after the release
// has reached the nodes. Its token is that number. Each node's lease is that of a holder of its
// own, made of the waiter and the number. What a node gives is granted once. So this is an attempt
// as any other, whose acquires were carried out late, and which is given up if the numbers differ.

// Given is what nodes have given to a waiter. The zero Given is nothing; so is nil, of which all
// may be asked, but which is told nothing. It is a plain value. Not safe for concurrent use.
type Given struct {
	nodes [MaxNodes]gift
	taken fence.Token // what has become a lock
}

// gift is the latest that a node has given: no number twice.
type gift struct {
	number fence.Token
	until  time.Duration // on the client's clock; the lease is there until then at least
	back   fence.Token   // up to this number it was given back

	// The latest answer to the waiter that was not the lease. What was given is later, if the
	// node's clock is, and cannot have been given before the request was sent.
	asked, clock time.Duration
	known        bool

	// The latest that it has told: the answer to what was asked before can be still on its way.
	told fence.Token
	then time.Duration // its clock
	at   time.Duration // when that was heard
}

// Refused takes the answer of a node that has the name leased, to an acquire of the waiter's. That
// was sent at asked, on the client's clock. It is told what the node's own clock showed then.
// Number is what the lease was given to this waiter with, 0 if it was not, and remaining what is
// left of it. It returns whether that is news: what was given back is not, with which the node
// refuses until it has heard of that.
func (g *Given) Refused(node int, asked, clock time.Duration, number fence.Token, remaining time.Duration) (news bool) {
	n := &g.nodes[node]
	if number == 0 {
		if !n.known || asked > n.asked {
			n.asked, n.clock, n.known = asked, clock, true
			g.hear(n)
		}
		return false
	}
	g.have(n, number, asked+min(remaining, rule.ReservationTTL)-rule.Drift(rule.ReservationTTL))
	return number > n.back
}

// Told takes what a node has told at now: that it gave the name with a number, when its clock
// showed clock.
func (g *Given) Told(node int, number fence.Token, clock, now time.Duration) {
	n := &g.nodes[node]
	n.told, n.then, n.at = number, clock, now
	g.hear(n)
}

// hear takes what a node has told, if it has refused before it gave. What it gave before is no
// news: the refusal is the newer word.
//
// The validity needs no clock that agrees with another. What the node's own clock has moved since
// it refused is the time between two of its acts. The first was not before the waiter had asked,
// and the second not after it was told. It is counted short by what clocks may differ in rate.
func (g *Given) hear(n *gift) {
	if n.told == 0 || !n.known || n.then < n.clock {
		return
	}
	moved := min(n.then-n.clock, n.at-n.asked)
	g.have(n, n.told, n.asked+max(moved-rule.Drift(moved), 0)+rule.ReservationTTL-rule.Drift(rule.ReservationTTL))
}

func (g *Given) have(n *gift, number fence.Token, until time.Duration) {
	switch {
	case number <= n.back || number < n.number:
	case number == n.number:
		n.until = max(n.until, until)
	default:
		n.number, n.until = number, until
	}
}

// Back forgets what a node has given, as that is being given back, and returns it: 0 for nothing,
// and for what was taken. From now on nothing up to this number counts, of no node. The holder of
// what was given is the same on all of them. Its release may be carried out long after that holder
// has extended.
func (g *Given) Back(node int) fence.Token {
	if g == nil {
		return 0
	}
	n := &g.nodes[node]
	number := max(n.number, n.told) // the one before it is gone, then
	if number <= n.back || number == g.taken {
		return 0
	}
	n.back, n.number, n.told = number, 0, 0
	return number
}

// WentBack returns the latest number that was given back to a node, 0 for none.
func (g *Given) WentBack(node int) fence.Token {
	if g == nil {
		return 0
	}
	return g.nodes[node].back
}

// Best returns the number that a quorum of nodes has given, and until when the leases of one are
// there. There has to be time enough left of that to extend them: a waiter that hears late gives
// back, and asks.
func (g *Given) Best(nodes int, now time.Duration) (number fence.Token, until time.Duration, ok bool) {
	if g == nil {
		return 0, 0, false
	}
	var ends [MaxNodes]time.Duration
	var back fence.Token
	for i := range nodes {
		back = max(back, g.nodes[i].back)
	}
	for i := range nodes {
		if g.nodes[i].number <= back {
			continue
		}
		same := ends[:0]
		for _, other := range g.nodes[:nodes] {
			if other.number == g.nodes[i].number && now+rule.ReservationTTL/2 <= other.until {
				same = append(same, other.until)
			}
		}
		if q := Quorum(nodes); len(same) >= q {
			slices.Sort(same)
			return g.nodes[i].number, same[len(same)-q], true
		}
	}
	return 0, 0, false
}

// Take makes what was given with a number the lock.
func (g *Given) Take(number fence.Token) { g.taken = number }

// Taken returns the number of what has become the lock, 0 if nothing has.
func (g *Given) Taken() fence.Token {
	if g == nil {
		return 0
	}
	return g.taken
}

// NewGiven starts the tenure of a lock that was given. The number that a quorum has told is its
// token. The validity is short, and the first extension is due in a 32nd of that. So a lock which
// is held for a moment costs no extension, and any other is soon valid for a TTL. MaxHold counts
// from Start.
func NewGiven(p Params, number fence.Token, until time.Duration) Attempt {
	a := Attempt{params: p, phase: Holding, token: number, mark: number, until: p.Start}
	a.rounds.shares = p.Shared
	// A TTL may be shorter than what was given: then an extension shortens the leases.
	a.setUntil(min(until, Validity(p.Start, p.TTL)))
	a.pace = a.until - p.Start
	a.due = p.Start + a.pace/32
	// A node that has not told may have given it, too, or give it yet.
	a.acquire.yes = allOf(p.Nodes)
	return a
}
