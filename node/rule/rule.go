// Package rule is what a node does, as pure functions: the operations of one
// node on one name, given the time. Engines that keep their state in Go or in
// SQL rows apply these functions inside one transaction; engines that run
// scripts on a server translate them. The simulator and the exhaustive check of
// fenlock run them as they are.
package rule

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Reply is a node's answer as far as the algorithm needs it: what decides. The
// rest of a node.Answer is for people and for waiting.
type Reply struct {
	Status node.Status
	// Register is the register of the name's stripe after the operation. For
	// a granted acquire it is the number granted. Zero where the answer
	// carries none.
	Register fence.Token
}

// Entry is what a node knows about one name: its lease and the register of
// its stripe. The zero Entry is that of a node that was never used.
type Entry struct {
	Holder   node.Holder   // empty: never leased, or removed
	Expires  time.Duration // on the node's clock; from this moment on the lease is gone
	Register fence.Token   // highest token ever promised for the stripe
	Out      bool          // not admitted: the node refuses, see node.Rejoining
}

// Leased reports whether the name is leased to anybody at now.
func (e *Entry) Leased(now time.Duration) bool { return e.Holder != "" && now < e.Expires }

func (e *Entry) leasedTo(holder node.Holder, now time.Duration) bool {
	return e.Leased(now) && e.Holder == holder
}

// Acquire leases the name to holder, unless it is leased already, and promises
// a number larger than every number promised before.
//
// A lease of the same holder refuses too. An acquire is sent once only, but a
// delayed one can arrive after an extension has re-created the lease; granting
// it again would move the register for nothing.
func Acquire(e *Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) Reply {
	switch {
	case e.Out:
		return Reply{Status: node.Rejoining}
	case e.Leased(now):
		return Reply{Status: node.Held}
	}
	e.Holder, e.Expires = holder, now+ttl
	e.Register = max(e.Register+1, proposal)
	return Reply{Status: node.Granted, Register: e.Register}
}

// Confirm raises the register to token while the lease is the holder's. It
// refuses a token that the register has passed: somebody was promised more.
func Confirm(e *Entry, now time.Duration, holder node.Holder, token fence.Token) Reply {
	switch {
	case e.Out:
		return Reply{Status: node.Rejoining}
	case !e.leasedTo(holder, now):
		return Reply{Status: node.Lost}
	case e.Register > token:
		return Reply{Status: node.Outrun, Register: e.Register}
	}
	e.Register = token
	return Reply{Status: node.Granted, Register: token}
}

// Extend renews the holder's lease. If nobody has the lease and the register is
// not past the token, nobody can have been granted the name in between, and
// the lease is created again: a node that restarted is mended while the lock is
// held. The register in the answer tells the holder what the acceptance proves.
func Extend(e *Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) Reply {
	switch {
	case e.Out:
		return Reply{Status: node.Rejoining}
	case e.leasedTo(holder, now), !e.Leased(now) && e.Register <= token:
		e.Holder, e.Expires = holder, now+ttl
		return Reply{Status: node.Granted, Register: e.Register}
	}
	return Reply{Status: node.Lost}
}

// Release removes the holder's lease, and never anybody else's. A node that is
// not admitted does it too: removing a lease promises nothing.
func Release(e *Entry, now time.Duration, holder node.Holder) Reply {
	if !e.leasedTo(holder, now) {
		return Reply{Status: node.Lost}
	}
	e.Holder = ""
	return Reply{Status: node.Granted}
}

// ForceRelease removes the lease, whoever has it, and raises the register above
// the token of the old holder, so that an extension cannot repair it. The floor
// is one more than the largest register seen at a majority beforehand: without
// it, a node that the old holder never reached would let itself be repaired.
func ForceRelease(e *Entry, now time.Duration, floor fence.Token) Reply {
	if e.Out {
		return Reply{Status: node.Rejoining}
	}
	e.Holder = ""
	e.Register = max(e.Register+1, floor)
	return Reply{Status: node.Granted, Register: e.Register}
}
