package nodetest

import (
	"fmt"
	"math"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/rule"
)

// A grant promises a number larger than every one before; the proposal lets all
// nodes of a group grant the same number, which saves the round of confirms.
func acquireGrantsTheLargerOfNextAndProposal(s *suite) {
	for _, step := range []struct{ proposal, want fence.Token }{
		{0, 1},       // an empty node starts at one: zero is "no token"
		{0, 2},       // nothing proposed: the next
		{100, 100},   // a larger proposal is taken as it is
		{100, 101},   // the same proposal again: a number is never granted twice
		{50, 102},    // a smaller one: the register never goes back
		{103, 103},   // exactly the next
		{1000, 1000}, //
	} {
		r := request("a", "holder", step.proposal)
		s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, r)), step.want)
		s.leased("a", "holder", true, step.want)
		s.want(node.Granted)(s.node.Release(s.ctx, r))
		s.leased("a", "", false, step.want) // outlives the lease
	}
}

// All clients agree on which names share a register, whatever the engine. A client that counted
// them apart would confirm a token that the others passed.
func registerServesItsWholeStripe(s *suite) {
	same, different := sameStripe("stripe", 3)
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, request(same[0], "", 10))), 10)
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, request(same[1], "", 0))), 11)
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, request(same[2], "", 5))), 12)
	s.leased(same[0], "", true, 12)
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, request(different, "", 0))), 1)
	s.leased(same[0], "", true, 12)
}

// The lease decides who holds. A client that is refused learns whose it is and for how long, and
// moves nothing: it must not outrun the holder's confirm.
func acquireRefusesWhileLeased(s *suite) {
	r := s.takes("a", "host/42", 7)
	a := s.want(node.Held)(s.other.Acquire(s.ctx, request("a", "rival", 1000)))
	if a.HeldBy != "host/42" || a.Holder != r.Holder.Fingerprint() {
		s.Errorf("held by %q, %x; want the label host/42 and the holder's fingerprint", a.HeldBy, a.Holder)
	}
	s.plausible(a.Remaining)
	s.leased("a", "host/42", true, 7)
}

// An acquire is sent once. One that was delayed on its way can arrive after an
// extension has created the lease again; granting it would move the register
// for nothing, and past the token that the holder relies on.
func acquireRefusesItsOwnHolder(s *suite) {
	r := s.takes("a", "me", 7)
	s.want(node.Held)(s.node.Acquire(s.ctx, r))
	s.want(node.Held)(s.other.Acquire(s.ctx, with(r, 1000)))
	s.leased("a", "me", true, 7)
}

// A holder that died must not keep the lock. No client has to do anything for it.
func leaseEndsByItself(s *suite) {
	looked, unseen := sameStripe("a", 1)
	for _, name := range append(looked, unseen) {
		s.want(node.Granted)(s.node.Acquire(s.ctx, lasting(request(name, "gone", 7), short)))
	}
	s.outwait()
	s.leased("a", "", false, 7)
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, request("a", "next", 0))), 8)
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, request(unseen, "next", 0))), 8)
}

// A clock that runs fast, or is in a smaller unit, has another client take the name from its
// holder. Half of a lease passes. A try in which this machine has spent all of it shows nothing.
func leaseLastsItsTTL(s *suite) {
	const ttl = time.Second
	for i := range 5 {
		name := fmt.Sprint("a", i)
		began := time.Now()
		s.want(node.Granted)(s.node.Acquire(s.ctx, lasting(request(name, "", 0), ttl)))
		if s.fast {
			s.wait(ttl / 2)
		} else {
			time.Sleep(ttl / 2) // not wait, which may add to it
		}
		a, err := s.other.Acquire(s.ctx, request(name, "", 0))
		if passed := time.Since(began); passed >= ttl {
			continue
		} else if err != nil || a.Status != node.Held {
			s.fail("%v after an acquire with a TTL of %v another client was answered %+v, %v; want held", passed, ttl, a, err)
		}
		return
	}
}

// A TTL that rounds to 0 ms makes some stores delete the key and report success (bsm/redislock,
// below one millisecond). Then a holder believes in a lease that is not there, or loses the one it
// has by extending it.
func badTTLChangesNothing(s *suite) {
	bad := []time.Duration{0, 1, time.Millisecond - 1, -1, -time.Hour, math.MinInt64}
	for _, ttl := range bad {
		s.invalid("acquire with a TTL of", ttl)(s.node.Acquire(s.ctx, lasting(request("a", "bad", 100), ttl)))
		s.leased("a", "", false, 0)
	}
	r := s.takes("a", "good", 7)
	for _, ttl := range bad {
		s.invalid("extend with a TTL of", ttl)(s.node.Extend(s.ctx, lasting(r, ttl)))
		s.leased("a", "good", true, 7)
	}
	// One millisecond is a TTL.
	s.want(node.Granted)(s.node.Acquire(s.ctx, lasting(request("b", "", 0), time.Millisecond)))
}

// Now plus a very long TTL can overflow. An engine may refuse such a TTL; it
// must not grant a lease that ended in the past.
func hugeTTLIsNeverAnEmptyGrant(s *suite) {
	for i, ttl := range []time.Duration{math.MaxInt64, math.MaxInt64 - time.Hour, math.MaxInt64 / 2} {
		name := string(rune('a' + i))
		if a, err := s.node.Acquire(s.ctx, lasting(request(name, "", 0), ttl)); err != nil || a.Status != node.Granted {
			continue
		}
		if l, err := s.other.Inspect(s.ctx, name); err != nil || l.Remaining <= time.Hour {
			s.Errorf("a TTL of %v was granted, and then: %+v, %v", ttl, l, err)
		}
	}
}

// One request with a nonsensical number must not use up the tokens of a stripe
// for good. (The wall clock in microseconds stays below the bound until 2112.)
func badTokenChangesNothing(s *suite) {
	for _, token := range []fence.Token{rule.MaxProposal + 1, fence.MaxToken, fence.MaxToken + 1, 1 << 62,
		math.MaxUint64} {
		s.invalid("acquire with the proposal", uint64(token))(s.node.Acquire(s.ctx, request("a", "bad", token)))
		s.leased("a", "", false, 0)
	}
	r := s.takes("a", "good", 7)
	for _, token := range []fence.Token{fence.MaxToken + 1, 1 << 62, math.MaxUint64} {
		s.invalid("confirm of", uint64(token))(s.node.Confirm(s.ctx, with(r, token)))
		if s.node.admin() {
			s.invalid("force release with the floor", uint64(token))(s.node.ForceRelease(s.ctx, "a", token))
		}
		s.leased("a", "good", true, 7)
	}
}

// Tokens pass through doubles and JSON in some engines. Up to 2^53 a double
// counts every unit; "%.14g", Lua's own way to write one, does not.
func tokensStayExact(s *suite) {
	want := rule.MaxProposal
	for i := range 6 {
		r := request("a", "big", rule.MaxProposal)
		s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, r)), want)
		s.leased("a", "big", true, want)
		if i%2 == 1 {
			want += 2
			s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(r, want))), want)
			s.register(s.want(node.Outrun)(s.node.Confirm(s.ctx, with(r, want-1))), want)
			s.want(node.Granted)(s.node.Extend(s.ctx, with(r, want)))
		}
		s.want(node.Granted)(s.node.Release(s.ctx, r))
		if i%2 == 0 {
			// Nothing is lost of it in the lease's origin.
			s.register(s.want(node.Granted)(s.node.Extend(s.ctx, with(r, want-1))), want)
			s.register(s.want(node.Granted)(s.node.Extend(s.ctx, with(r, want))), want)
			s.want(node.Granted)(s.node.Release(s.ctx, r))
		}
		want++
	}
	// As large as they get.
	r := s.takes("a", "high", 0)
	s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(r, fence.MaxToken-3))), fence.MaxToken-3)
	s.want(node.Granted)(s.node.Release(s.ctx, r))
	next := fence.MaxToken - 2
	if s.node.admin() {
		s.register(s.want(node.Granted)(s.node.ForceRelease(s.ctx, "a", next)), next)
		next++
	}
	r = request("a", "last", 0)
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, r)), next)
	s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(r, fence.MaxToken))), fence.MaxToken)
	s.leased("a", "last", true, fence.MaxToken)
}

// The empty holder is none: its lease would be granted to the next client that asks, or be released
// by all clients without a holder.
func emptyHolderChangesNothing(s *suite) {
	r := request("a", "", 100)
	r.Holder = ""
	for _, op := range []node.Op{node.Acquire, node.Extend} {
		r.Op = op
		s.invalid("without a holder:", op)(s.node.Do(s.ctx, r))
		s.leased("a", "", false, 0)
	}
	s.takes("a", "good", 7)
	s.want(node.Lost)(s.node.Release(s.ctx, r))
	s.want(node.Lost)(s.node.Confirm(s.ctx, r))
	s.leased("a", "good", true, 7)
}

// The contract may get more operations. An engine that takes one for another carries out what was
// not asked for.
func unknownOperationChangesNothing(s *suite) {
	r := s.takes("a", "good", 7)
	for _, r.Op = range []node.Op{0, node.ForceRelease + 1, 100, 255} {
		s.invalid("operation", r.Op)(s.node.Do(s.ctx, r))
		s.leased("a", "good", true, 7)
	}
}

// A clock that counts from the boot begins anew with it. A lease that was stored with a time of
// before would seem to last for as long as the machine had been up. But its holder has ended.
func leasesEndWithTheBoot(s *suite) {
	if s.reboot == nil {
		s.bootClock()
		return
	}
	before := s.takes("name", "before", 1000)
	n := s.reboot()
	s.Cleanup(func() { n.Close() })
	after := &watched{Node: n, in: s}
	s.wait(short)
	a := s.want(node.Granted)(after.Acquire(s.ctx, request("name", "after", 0)))
	if a.Register <= 1000 {
		s.Fatalf("the register is %d after the boot, and was 1000: tokens would come twice", a.Register)
	}
	s.want(node.Lost)(after.Release(s.ctx, before))
}

// bootClock refuses an engine whose clock is seen to be that of the boot, and which does not say
// so.
func (s *suite) bootClock() {
	s.takes("held", "", 0)
	r := request("held", "", 0)
	r.Place = node.Place{Waiter: identity() + ":1", Stamp: 1}
	a, err := s.node.Acquire(s.ctx, r)
	if err == nil && a.Clock != 0 && (a.Clock-clock.Now()).Abs() < 2*time.Second {
		s.Fatalf("its clock is that of the boot (%v): set Harness.Reboot, so that leases are seen to end with the boot",
			a.Clock)
	}
}
