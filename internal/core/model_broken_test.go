package core_test

import (
	"fmt"
	"strings"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Variants of the rules, for the searches that must refute them.

// broken are the switches of the variants that must be refuted. The shipped
// code is the zero value.
type broken struct {
	noConfirm        bool // the largest number granted is the token
	confirmAnyway    bool // confirm does not look at the lease
	confirmOutrun    bool // confirm accepts though the register is past the token
	confirmsEpoch    bool // a confirm promises its number to those that come to share, where none was before
	votesEmpty       bool // a node without memory votes
	rebuiltEarly     bool // a node is rebuilt while older attempts are under way
	votesOut         bool // a node that is out carries out each request, and its answers count
	readsOut         bool // a node that is out is read for the rebuild of another one
	straysLate       bool // a node that is out makes leases after its quarantine, too: see stray
	leasesOutlive    bool // these outlive the quarantine
	unread           int  // so many nodes need not be read before a node is admitted
	extendsByLease   bool // "leased to the holder" is all that an extension asks for
	originZero       bool // a lease that is created again has no origin
	originGranted    bool // it has what was granted there at first
	originToken      bool // it has the token
	raisesUnasked    bool // the mark is raised without asking any node
	raisesByFew      bool // it is raised by fewer than a quorum
	raisesByNew      bool // it is raised by leases whose origin is past the mark, but not past what it is raised to
	raisesByLost     bool // a node that does not have the lease raises it
	raisesByOther    bool // an answer to a raise to another number counts
	raisesByOld      bool // an answer to a raise that was given up counts for the next
	raisesLate       bool // a raise outlives a lease
	raisesNothing    bool // a node agrees to a raise, and its register stays as it is
	roundsMixed      bool // an answer to an earlier extension counts for the latest one
	grantsOutlive    bool // a late grant counts after the validity
	grantsMixed      bool // a late grant of one attempt counts for another one of the same client
	grantsExtend     bool // a late grant counts for the extension that is under way
	latesAsNew       bool // a late answer to an extension counts for the latest one
	latesForAll      bool // it counts though others share the name since
	noFloor          bool // a force release asks each node once, and moves its register by one
	onePass          bool // it asks each node once, with one more than the largest register of a quorum
	keepsEpoch       bool // an acquire to share a name gets the number of the epoch, also where a floor has passed it
	grantsUnmoved    bool // an acquire is granted with the register as it is
	refusalsCount    bool // a refused acquire counts as a grant, with the register as it is
	grantsReserved   bool // an acquire takes a name that is kept, with the register as it is
	confirmsReserved bool // a confirm takes a name that is reserved for its own
	extendsReserved  bool // an extend does, instead of creating its lease
	sharesUnmoved    bool // the first who shares a name gets the register as it is
	unshares         bool // an attempt that lets others share its name extends it as if it had it alone
	sharesOld        bool // a reader gets the number that was promised to other readers, also if they have gone
	confirmsShared   bool // a number that one of those who share a name has confirmed is not promised to those who come
	adoptsAtOnce     bool // a process that adopts a lock holds it before any answer, for as long as the exporter did
	adopterRaises    bool // it raises its mark before its first extension is carried
	exporterGoesOn   bool // a process that exports a lock goes on extending it
	exportsUnraised  bool // a lock is exported without having registers raised past what goes with it
	exportsRaised    bool // what goes with it is the mark as it is when it was raised
	givesUnmoved     bool // a node gives the name with its register as it is
	takesLargest     bool // a waiter to whom a quorum has given holds with the largest number
	takesByFew       bool // a waiter holds by what fewer than a quorum have given
	takesStale       bool // what was given before a node lost its memory counts for ever
}

// takesKept reports whether a name that is kept may not be refused to all.
func (b broken) takesKept() bool { return b.grantsReserved || b.confirmsReserved || b.extendsReserved }

// acquire has a node carry out an acquire, or a broken variant of it.
func (m *model) acquire(e *rule.Entry, at *modelNode, holder node.Holder, proposal fence.Token,
	shared bool) core.Reply {
	register := e.Register
	switch {
	case m.broken.sharesOld && shared && !e.Leased(now) && at.epoch > 0:
		e.Holder, e.Expires = sharedHolder(&modelNode{epoch: at.epoch, lease: vacant}, true), now+ttl
	case m.broken.sharesUnmoved && shared && !e.Leased(now) && e.Register > 0:
		e.Holder, e.Expires = sharedHolder(&modelNode{epoch: small(register), lease: vacant}, true), now+ttl
	}
	if m.broken.grantsReserved && e.Holder.Reserves() || m.broken.grantsUnmoved && !e.Out && !e.Leased(now) {
		e.Holder, e.Expires, e.Register = holder, now+ttl, max(e.Register, proposal)
		e.Origin = e.Register
		return core.Reply{Status: core.Granted, Register: e.Register}
	}
	reply := serve(e, node.Acquire, holder, proposal, shared)
	if m.broken.refusalsCount && reply.Status == core.Held {
		reply = core.Reply{Status: core.Granted, Register: register}
	}
	return reply
}

// promising has who comes to share a name get another number.
func promising(epoch string, shared node.Holder) node.Holder {
	_, readers, _ := strings.Cut(string(shared), "\n")
	return node.Holder(node.SharedPrefix + epoch + "\n" + readers)
}

// confirm has a node carry out a confirm, or a broken variant of it.
func (m *model) confirm(e *rule.Entry, holder node.Holder, token fence.Token) core.Reply {
	if m.broken.confirmAnyway {
		pretended := rule.Entry{Holder: holder, Expires: now + ttl, Register: e.Register}
		reply := serve(&pretended, node.Confirm, holder, token, false)
		e.Register = pretended.Register
		return reply
	}
	before := *e
	reply := serve(e, node.Confirm, holder, token, false)
	if m.broken.confirmsShared && before.Holder.Shared() {
		e.Holder = before.Holder
	}
	if m.broken.confirmsEpoch && reply.Status == core.Granted && e.Holder.Shared() {
		e.Holder = promising(fmt.Sprint(token), e.Holder)
	}
	if m.broken.confirmOutrun && reply.Status == core.Outrun {
		reply = core.Reply{Status: core.Granted, Register: token}
	}
	return reply
}

// extend has a node carry out an extend, or a broken variant of it.
func (m *model) extend(e *rule.Entry, a *attempt, n int, kept bool, holder node.Holder, floor fence.Token,
	shared bool) core.Reply {
	if m.broken.extendsReserved && kept {
		e.Holder = holder
	}
	again, register := !e.Leased(now), e.Register
	readers := e.Holder
	reply := serve(e, node.Extend, holder, floor, shared)
	if m.broken.keepsEpoch && !again && readers.Shared() && e.Holder.Shared() {
		epoch, _, _ := strings.Cut(strings.TrimPrefix(string(readers), node.SharedPrefix), "\n")
		e.Holder = promising(epoch, e.Holder)
	}
	if m.broken.raisesNothing {
		e.Register = register
	}
	if again && reply.Status == core.Granted {
		switch {
		case m.broken.originZero:
			e.Origin = 0
		case m.broken.originGranted:
			e.Origin = a.core.Granted(n)
		case m.broken.originToken:
			e.Origin = a.core.Token()
		default:
			return reply
		}
		reply.Register = e.Origin
	}
	return reply
}
