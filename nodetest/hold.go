package nodetest

import (
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Nodes that granted different numbers are brought to one: the largest.
func confirmRaisesTheRegister(s *suite) {
	r := s.takes("a", "me", 7)
	s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(r, 7))), 7) // what it is already
	s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(r, 20))), 20)
	s.leased("a", "me", true, 20)
	_, elsewhere := sameStripe("a", 1)
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, request(elsewhere, "", 0))), 1)
	s.want(node.Granted)(s.node.Release(s.ctx, r))
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, request("a", "next", 0))), 21)
}

// A register past the token has been promised to another client, through another name of the
// stripe. Accepting the smaller number would fix two holders' tokens in the wrong order.
func confirmRefusesAnOutrunToken(s *suite) {
	same, _ := sameStripe("outrun", 2)
	r := s.takes(same[0], "me", 7)
	s.want(node.Granted)(s.other.Acquire(s.ctx, request(same[1], "", 20)))
	s.register(s.want(node.Outrun)(s.node.Confirm(s.ctx, with(r, 7))), 20)
	s.register(s.want(node.Outrun)(s.node.Confirm(s.ctx, with(r, 19))), 20)
	s.leased(same[0], "me", true, 20)
	s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(r, 20))), 20)
}

// Without the lease there is nothing to confirm: another client may have been granted the name, and
// the same number, in between.
func confirmNeedsTheLease(s *suite) {
	r := lasting(request("a", "late", 7), short)
	s.want(node.Lost)(s.node.Confirm(s.ctx, r)) // never had it
	s.want(node.Granted)(s.node.Acquire(s.ctx, r))
	s.outwait()
	s.want(node.Lost)(s.node.Confirm(s.ctx, with(r, 100))) // ran out
	s.leased("a", "", false, 7)
	s.want(node.Granted)(s.other.Acquire(s.ctx, request("a", "other", 0)))
	s.want(node.Lost)(s.node.Confirm(s.ctx, with(r, 100))) // another client's
	s.leased("a", "other", true, 8)
}

// The validity counts from before the acquire. A lease that a confirm made
// longer would be waited for although its holder has given it up.
func confirmDoesNotProlong(s *suite) {
	r := lasting(request("a", "me", 7), short)
	s.want(node.Granted)(s.node.Acquire(s.ctx, r))
	longer := request("a", "me", 7)
	longer.Holder = r.Holder
	// Whether it is in time depends on the machine; what follows does not.
	if _, err := s.node.Confirm(s.ctx, with(longer, 7)); err != nil {
		s.Fatal(err)
	}
	s.outwait()
	s.leased("a", "", false, 7)
}

// The new TTL counts from the extension, whether it is longer or shorter.
func extendSetsTheNewTTL(s *suite) {
	r := request("a", "me", 7)
	s.want(node.Granted)(s.node.Acquire(s.ctx, lasting(r, short)))
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, r)), 7)
	s.outwait()
	s.leased("a", "me", true, 7)
	s.want(node.Held)(s.other.Acquire(s.ctx, request("a", "rival", 0)))

	s.want(node.Granted)(s.node.Extend(s.ctx, lasting(r, short)))
	s.outwait()
	s.leased("a", "", false, 7)
}

// The holder's own lease may be extended when another name moved the register. It
// keeps its origin, the number that was granted. A floor raises the register, and no
// origin.
func extendReportsTheOrigin(s *suite) {
	same, _ := sameStripe("report", 2)
	r := with(s.takes(same[0], "me", 7), 0)
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, r)), 7)
	s.want(node.Granted)(s.other.Acquire(s.ctx, request(same[1], "", 20)))
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, r)), 7)
	s.leased(same[0], "me", true, 20)
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, with(r, 1000))), 7)
	s.leased(same[0], "me", true, 1000)
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, with(r, 999))), 7)
	s.leased(same[0], "me", true, 1000)
}

// A node that restarted, or that the acquire never reached, is mended while the lock is held,
// whatever its register is. The origin of the new lease is the register as it was. It tells the
// holder whether another client may have had the name in between.
func extendRepairsAVacantLease(s *suite) {
	r := with(s.outlives("a", "me", 7), 0)
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, r)), 7)
	s.leased("a", "me", true, 7)
	s.want(node.Held)(s.other.Acquire(s.ctx, request("a", "rival", 0)))

	// Where it never was, with a register that is still below the token.
	_, elsewhere := sameStripe("a", 1)
	r = request(elsewhere, "me", 9)
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, r)), 0)
	s.leased(r.Name, "me", true, 9)
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, r)), 0)
	s.leased("a", "me", true, 7)
}

// An expired lock that is extended after another client had it and let it go is the bug of
// redsync's WithSetNXOnExtend. There are two holders, one after the other, and the first believes
// that it held all the time. The origin tells, also later.
func extendTellsThatTheRegisterPassed(s *suite) {
	r := with(s.outlives("a", "old", 7), 0)
	between := request("a", "between", 0)
	s.want(node.Granted)(s.other.Acquire(s.ctx, between))
	s.want(node.Granted)(s.other.Release(s.ctx, between))
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, with(r, 30))), 8)
	s.leased("a", "old", true, 30)
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, r)), 8)
	s.want(node.Granted)(s.node.Release(s.ctx, r))
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, r)), 30)
}

// However large the token: the lease decides who holds.
func extendRefusesAnothersLease(s *suite) {
	s.want(node.Granted)(s.other.Acquire(s.ctx, request("a", "owner", 7)))
	s.want(node.Lost)(s.node.Extend(s.ctx, request("a", "thief", 7)))
	s.want(node.Lost)(s.node.Extend(s.ctx, request("a", "thief", 1000)))
	s.leased("a", "owner", true, 7)
}

// The next one need not wait for the TTL.
func releaseFreesAtOnce(s *suite) {
	r := s.takes("a", "me", 7)
	s.want(node.Granted)(s.node.Release(s.ctx, r))
	s.leased("a", "", false, 7)
	s.want(node.Lost)(s.node.Release(s.ctx, r)) // twice does no harm
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, request("a", "next", 0))), 8)
	s.want(node.Lost)(s.node.Release(s.ctx, r))
	s.leased("a", "next", true, 8)
}

// A release without a check of the owner frees another client's lock, as soon as one holder is late
// (laravel #26213).
func releaseLeavesAnothersLease(s *suite) {
	owner := s.takes("a", "same label", 7)
	s.want(node.Lost)(s.other.Release(s.ctx, request("a", "same label", 7)))
	s.want(node.Lost)(s.node.Release(s.ctx, request("b", "same label", 7)))
	prefix := owner
	prefix.Holder = owner.Holder[:len(owner.Holder)-1]
	s.want(node.Lost)(s.node.Release(s.ctx, prefix))
	prefix.Holder = owner.Holder + "x"
	s.want(node.Lost)(s.node.Release(s.ctx, prefix))
	s.leased("a", "same label", true, 7)
}

// The answer tells a holder that it was too late.
func releaseAfterTheEndIsLost(s *suite) {
	r := s.outlives("a", "late", 7)
	s.want(node.Lost)(s.node.Release(s.ctx, r))
}

// An operator takes a lock away. The old holder may still be running, so
// the register moves: the origin of its next extension tells.
func forceReleaseShutsOutTheOldHolder(s *suite) {
	r := s.takes("a", "old", 7)
	s.register(s.want(node.Granted)(s.other.ForceRelease(s.ctx, "a", 0)), 8)
	s.leased("a", "", false, 8)
	s.want(node.Lost)(s.node.Confirm(s.ctx, r))
	s.want(node.Lost)(s.node.Release(s.ctx, r))
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, r)), 8)
	s.register(s.want(node.Granted)(s.other.ForceRelease(s.ctx, "a", 0)), 9)
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, request("a", "next", 0))), 10)
}

// The old holder's token can be larger than this node's register, where it
// never reached the node. The floor shuts it out there as well.
func forceReleaseRespectsTheFloor(s *suite) {
	for _, step := range []struct{ floor, want fence.Token }{
		{0, 1}, {50, 50}, {50, 51}, {10, 52}, {53, 53},
	} {
		s.register(s.want(node.Granted)(s.node.ForceRelease(s.ctx, "a", step.floor)), step.want)
		s.leased("a", "", false, step.want)
	}
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, request("a", "old", 52))), 53)
}
