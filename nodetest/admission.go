package nodetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// Admission is an engine whose store can lose its memory while its address stays, under test.
type Admission struct {
	// Open opens one more client of the store, as another process would have, which is in no group. It
	// implements node.Rejoiner. The suite closes it.
	Open func() node.Node
	// Wipe has the store lose everything that it knew, while it stays where it is: what is there
	// afterwards was never used.
	Wipe func()
	// Copy saves what the store knows. What it returns puts that back, as a restored backup, a
	// promoted replica or a copy that took the name does. Nil: a client could not notice, or the
	// store cannot be copied.
	Copy func() (restore func())
	// Wait lets at least d pass on the store's clock: it moves a fake clock, or is time.Sleep.
	Wait func(d time.Duration)
	// Patience bounds how long the suite waits for an admission, on the store's clock, before it says
	// that there is none. Zero is a minute.
	Patience time.Duration
}

// RunAdmission runs the scenes of admission, one subtest per scene. It calls open for each, with an
// empty store that was never used, or that was admitted and never used since. The scenes wait most
// of their time: where each has a store of its own, open may call t.Parallel first. Goroutines are
// counted when all scenes have ended. An engine whose store cannot lose its memory needs none of
// it: it is no node.Rejoiner for its own sake.
func RunAdmission(t *testing.T, open func(t *testing.T) Admission) {
	noLeak(t)
	for _, scene := range admissionScenes {
		t.Run(nameOf(scene), func(t *testing.T) {
			h := open(t)
			scene(&admissionSuite{T: t, Admission: h, began: time.Now(), peers: [2]*peer{{name: "peer 1"}, {name: "peer 2"}},
				fail: t.Fatalf})
		})
	}
}

var admissionScenes = []func(*admissionSuite){
	wipedStoreWaitsForTheLongestLease, registersComeFromTheOthers, lostMemoriesAreListed, silentNodesAreWaitedFor,
	newIsBelievedWhereAllAreNew, newIsNotBelievedBesideASilentNode, newIsNotBelievedBesideRecordedTerms,
	newIsNotBelievedBesideRecordedMembers, newIsNotBelievedBesideARegister, newIsNotBelievedBesideAnAdmittedNode,
	newIsNotBelievedOnAUsedStore, anotherMaxTTLIsRefused, anotherGroupIsRefused, othersOfAnotherGroupAreRefused,
	restoredStoreIsNotBelieved, leasesOfBeforeDoNotCount, outStoreSaysSo, oneOfManyAdmits,
}

// The group's longest lease where a scene waits for it, and where it must not pass.
const (
	shortLease = time.Second
	longLease  = time.Hour
)

// admissionSuite is one scene.
type admissionSuite struct {
	*testing.T
	Admission
	peers  [2]*peer // the other nodes of the group
	began  time.Time
	waited time.Duration
	fail   func(format string, args ...any)
}

// peer is another node of the group. It answers for its registers, and carries nothing out.
type peer struct {
	node.Node // nil: the engine under test has no business with it
	name      string
	mu        sync.Mutex
	silent    bool
	registers node.Registers
}

func (p *peer) String() string        { return p.name }
func (p *peer) Engine() any           { return p }
func (p *peer) Join(node.Group) error { return nil }

func (p *peer) Registers(context.Context) (node.Registers, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent {
		return node.Registers{}, errors.New(p.name + ": no answer")
	}
	r := p.registers
	r.Server, r.Memory = p.name, cmp.Or(r.Memory, "memory of "+p.name)
	return r, nil
}

func (p *peer) say(r node.Registers) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent, p.registers = false, r
}

// admitted has both peers answer as admitted nodes with a register.
func (s *admissionSuite) admitted(stripe int, token fence.Token) {
	for _, p := range s.peers {
		p.say(node.Registers{Admitted: true, Tokens: map[int]fence.Token{stripe: token}})
	}
}

// client opens a client, and joins it to the group of the store and both peers.
func (s *admissionSuite) client(change func(g *node.Group)) node.Node {
	s.Helper()
	n := s.Open()
	s.Cleanup(func() { n.Close() })
	g := node.Group{Nodes: []node.Node{n, s.peers[0], s.peers[1]}, MaxTTL: shortLease}
	if change != nil {
		change(&g)
	}
	rejoiner, ok := n.Engine().(node.Rejoiner)
	if !ok {
		s.Fatalf("the engine is no node.Rejoiner, and its store can lose its memory")
	}
	if err := rejoiner.Join(g); err != nil {
		s.Fatal(err)
	}
	return n
}

func (s *admissionSuite) registers(n node.Node) node.Registers {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
	defer cancel()
	r, err := n.Engine().(node.Rejoiner).Registers(ctx)
	if err != nil {
		s.Fatalf("registers: %v", err)
	}
	return r
}

// do carries out one operation.
func (s *admissionSuite) do(n node.Node, op node.Op, r node.Request) (node.Answer, error) {
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
	defer cancel()
	r.Op, r.TTL = op, min(r.TTL, shortLease)
	return n.Do(ctx, r)
}

// passed is how much time has passed on the store's clock, at least, since the scene began.
func (s *admissionSuite) passed() time.Duration { return max(s.waited, time.Since(s.began)) }

func (s *admissionSuite) let(d time.Duration) {
	s.Wait(d)
	s.waited += d
}

// until asks again and again for a name, each time as another holder, until it is granted.
func (s *admissionSuite) until(n node.Node, name string) (node.Request, node.Answer) {
	s.Helper()
	began := s.passed()
	for {
		r := request(name, "", 0)
		a, err := s.do(n, node.Acquire, r)
		switch {
		case err == nil && a.Status == node.Granted:
			return r, a
		case errors.Is(err, node.ErrMisconfigured):
			s.Fatalf("it is not admitted: %v", err)
		case err == nil && a.Status == node.Rejoining && a.Absence == node.Absence{}:
			s.Fatal("it does not say why it is out")
		case s.passed()-began > cmp.Or(s.Patience, time.Minute):
			s.Fatalf("it is not admitted: %+v, %v", a, err)
		}
		s.let(100 * time.Millisecond)
	}
}

// refused asks a few times for a name, which must not be granted.
func (s *admissionSuite) refused(n node.Node, name string, why string) (last node.Answer, err error) {
	s.Helper()
	for range 3 {
		if last, err = s.do(n, node.Acquire, request(name, "", 0)); err == nil && last.Status == node.Granted {
			s.fail("it was granted, although %s", why)
			return last, err
		}
		s.let(250 * time.Millisecond)
	}
	return last, err
}

// wipe has the store lose its memory, and returns a moment at which it still had it.
func (s *admissionSuite) wipe() time.Duration {
	had := s.passed()
	s.Wipe()
	return had
}

// lost asks once for a name of a store that was wiped. It must not be granted as long as an earlier
// lease may be held. A scene that was stopped for longer than that has seen nothing: ok is false.
func (s *admissionSuite) lost(n node.Node, had time.Duration) (a node.Answer, ok bool) {
	s.Helper()
	a, err := s.do(n, node.Acquire, request("name", "", 0))
	if after := s.passed() - had; err == nil && a.Status == node.Granted && after < shortLease {
		s.fail("it was granted %v after the loss: a lease of %v may still be held", after, shortLease)
	}
	return a, err == nil && a.Status == node.Rejoining
}

// misconfigured asks for a name, and wants to be told that the client must not use the store, and
// that nothing was written.
func (s *admissionSuite) misconfigured(n node.Node, why string) {
	s.Helper()
	if a, err := s.refused(n, "name", why); !errors.Is(err, node.ErrMisconfigured) {
		s.fail("%+v, %v; want an error that matches node.ErrMisconfigured, since %s", a, err, why)
	}
}

// A store that was wiped may have leased the name to a holder that lives. No client has it before
// the longest lease of the group has ended.
func wipedStoreWaitsForTheLongestLease(s *admissionSuite) {
	s.admitted(0, 1)
	s.until(s.client(nil), "name")
	had := s.wipe()
	s.until(s.client(nil), "name")
	if after := s.passed() - had; after < shortLease {
		s.fail("%v after the loss it granted a name again: a lease of %v may still be held", after, shortLease)
	}
}

// A store without memory promises more than all that the others have seen.
func registersComeFromTheOthers(s *admissionSuite) {
	const before = fence.Token(1) << 40
	s.admitted(node.Stripe("name"), before)
	s.Wipe()
	if _, a := s.until(s.client(nil), "name"); a.Register <= before {
		s.fail("the register is %d after the loss, and another node has promised %d", a.Register, before)
	}
}

// The memories that were lost together are recorded by any name: one need not wait for another.
func lostMemoriesAreListed(s *admissionSuite) {
	const lost = "of 100 %, after "
	s.peers[0].say(node.Registers{Memory: lost})
	s.Wipe()
	n := s.client(nil)
	s.until(n, "name")
	if empty := s.registers(n).Empty; !slices.Contains(empty, lost) {
		s.fail("%q is lost as well, and it has recorded that %q are", lost, empty)
	}
}

// A node that does not answer may have promised what no other one has seen.
func silentNodesAreWaitedFor(s *admissionSuite) {
	s.admitted(0, 1)
	s.peers[1].silent = true
	s.Wipe()
	n := s.client(nil)
	s.refused(n, "name", "it has just lost its memory")
	s.let(2 * shortLease)
	a, err := s.refused(n, "name", "a node does not answer that may have promised larger numbers")
	if err != nil || a.Status != node.Rejoining || a.Absence.Cause != node.NeedsRegisters || a.Absence.Need != 2 ||
		a.Absence.Have != 1 {
		s.fail("%+v, %v; want that registers of 2 nodes are needed, and 1 can be had", a, err)
	}
	s.admitted(0, 1)
	s.until(n, "name")
}

// new is a group of servers that are said to be new.
func (s *admissionSuite) new(change func(g *node.Group)) node.Node {
	return s.client(func(g *node.Group) {
		g.New, g.MaxTTL = true, longLease
		if change != nil {
			change(g)
		}
	})
}

// If all answer, and have nothing recorded, no client has to wait.
func newIsBelievedWhereAllAreNew(s *admissionSuite) {
	s.Patience = min(cmp.Or(s.Patience, time.Minute), longLease/2)
	s.until(s.new(nil), "name")
}

func newIsNotBelievedBesideASilentNode(s *admissionSuite) {
	s.Wipe()
	s.peers[1].silent = true
	s.refused(s.new(nil), "name", "a node does not answer, which may have been used")
}

func newIsNotBelievedBesideRecordedTerms(s *admissionSuite) {
	s.Wipe()
	s.peers[1].say(node.Registers{MaxTTL: longLease})
	s.refused(s.new(nil), "name", "another node has a MaxTTL recorded, so that it was used")
}

func newIsNotBelievedBesideRecordedMembers(s *admissionSuite) {
	s.Wipe()
	n := s.new(func(g *node.Group) { s.peers[1].say(node.Registers{Members: admit.TermsOf(*g).Members}) })
	s.refused(n, "name", "another node has members recorded, so that it was used")
}

func newIsNotBelievedBesideARegister(s *admissionSuite) {
	s.Wipe()
	s.peers[1].say(node.Registers{Tokens: map[int]fence.Token{5: 1}})
	s.refused(s.new(nil), "name", "another node has a register, so that it was used")
}

func newIsNotBelievedBesideAnAdmittedNode(s *admissionSuite) {
	s.Wipe()
	s.peers[1].say(node.Registers{Admitted: true, Empty: []string{"another memory"}})
	s.refused(s.new(nil), "name", "another node votes, and was not admitted together with this one")
}

// A store that was used is not new, whatever is said: its mark may have gone, its terms have not.
func newIsNotBelievedOnAUsedStore(s *admissionSuite) {
	if s.Copy == nil {
		return
	}
	s.admitted(0, 1)
	s.until(s.client(nil), "name")
	s.Copy()()
	for _, p := range s.peers {
		p.say(node.Registers{})
	}
	restored := s.passed()
	n := s.client(func(g *node.Group) { g.New = true })
	for range 3 {
		a, err := s.do(n, node.Acquire, request("another name", "", 0))
		if err == nil && a.Status == node.Granted && s.passed()-restored < shortLease {
			s.fail("it was granted %v after the store was put back, on the word that it is new", s.passed()-restored)
		}
		s.let(50 * time.Millisecond)
	}
}

// With another longest lease, a client would let a store vote too early.
func anotherMaxTTLIsRefused(s *admissionSuite) {
	s.admitted(0, 1)
	s.Wipe()
	n := s.client(nil)
	s.until(n, "name")
	before := s.registers(n).Tokens
	s.misconfigured(s.client(func(g *node.Group) { g.MaxTTL = 2 * shortLease }), "its MaxTTL is another one")
	s.unchanged(n, before)
}

// With other members, two majorities need not have a node in common.
func anotherGroupIsRefused(s *admissionSuite) {
	s.admitted(0, 1)
	s.Wipe()
	n := s.client(nil)
	s.until(n, "name")
	before := s.registers(n).Tokens
	s.misconfigured(s.client(func(g *node.Group) { g.Nodes = g.Nodes[:2] }), "its group has fewer nodes")
	s.misconfigured(s.client(func(g *node.Group) { g.Nodes[2] = &peer{name: "peer 3"} }), "its group has another node")
	s.unchanged(n, before)
	if err := n.Engine().(node.Rejoiner).Join(node.Group{Nodes: []node.Node{n}, MaxTTL: shortLease}); err == nil {
		s.fail("a node that has joined a group joined another one")
	}
}

func (s *admissionSuite) unchanged(n node.Node, before map[int]fence.Token) {
	s.Helper()
	if after := s.registers(n).Tokens; fmt.Sprint(after) != fmt.Sprint(before) {
		s.fail("the registers are %v, and were %v: a client that was refused has changed them", after, before)
	}
}

// What is left of one group must not make another one.
func othersOfAnotherGroupAreRefused(s *admissionSuite) {
	s.admitted(0, 1)
	s.Wipe()
	s.peers[1].say(node.Registers{Admitted: true, MaxTTL: 3 * shortLease})
	n := s.client(nil)
	s.refused(n, "name", "it has just lost its memory")
	s.let(2 * shortLease)
	s.misconfigured(n, "another node has another MaxTTL recorded")
	s.peers[1].say(node.Registers{Admitted: true, Members: "others than these"})
	s.let(time.Second)
	s.misconfigured(n, "another node has other members recorded")
}

// A store that was put back, or copied, has its mark: it does not have what was leased since.
func restoredStoreIsNotBelieved(s *admissionSuite) {
	if s.Copy == nil {
		return
	}
	const later = fence.Token(1) << 40
	s.admitted(0, 1)
	n := s.client(nil)
	s.until(n, "name")
	restore := s.Copy()
	s.until(n, "held")
	s.admitted(node.Stripe("held"), later)
	restored := s.passed()
	restore()
	_, a := s.until(s.client(nil), "held")
	if after := s.passed() - restored; after < shortLease {
		s.fail("%v after it was put back it granted a name: a lease of %v may still be held", after, shortLease)
	}
	if a.Register <= later {
		s.fail("the register is %d after it was put back, and another node has promised %d", a.Register, later)
	}
}

// A lease from before the loss, or of a client that has not heard of it, says nothing of what
// happened since. If it survived the admission, its holder would believe its origin.
func leasesOfBeforeDoNotCount(s *admissionSuite) {
	if s.Copy == nil {
		return
	}
	const later = fence.Token(1) << 40
	s.admitted(0, 1)
	old := s.client(nil)
	s.until(old, "name")
	held, _ := s.until(old, "held")
	s.admitted(node.Stripe("held"), later) // by others, since
	s.Copy()()
	other := s.client(nil)
	for began := s.passed(); ; s.let(100 * time.Millisecond) {
		if a, err := s.do(old, node.Extend, held); err == nil && a.Status == node.Granted && s.registers(other).Admitted &&
			a.Register < later {
			s.fail("a lease of before the loss is there after the admission, with the origin %d", a.Register)
			return
		} else if err == nil && a.Status == node.Granted && a.Register >= later {
			return // it was made after the admission
		}
		if s.passed()-began > cmp.Or(s.Patience, time.Minute) {
			s.Fatal("it is not admitted")
		}
	}
}

// A store that is out tells the others that what it has is not what was promised.
func outStoreSaysSo(s *admissionSuite) {
	s.admitted(0, 1)
	n := s.client(nil)
	s.until(n, "name")
	before := s.registers(n)
	if !before.Admitted || before.Memory == "" || before.Server == "" {
		s.fail("a store that votes says %+v of itself", before)
	}
	var out node.Node
	for range 10 {
		had := s.wipe()
		out = s.client(nil)
		a, ok := s.lost(out, had)
		if !ok {
			continue
		}
		if a.Absence.Cause == node.Present {
			s.fail("%+v; want that it does not vote, and why", a)
		}
		if during := s.registers(out); during.Admitted || during.Memory == before.Memory || during.Memory == "" {
			s.fail("a store that was wiped says %+v of itself, and said %+v before", during, before)
		}
		break
	}
	s.until(out, "name")
	if after := s.registers(out); !after.Admitted || after.Memory == before.Memory {
		s.fail("a store that was admitted again says %+v of itself, and said %+v before", after, before)
	}
}

// Clients that come at once have a store admitted once, and one of them gets the name.
func oneOfManyAdmits(s *admissionSuite) {
	s.admitted(0, 1)
	had := s.wipe()
	var clients [4]node.Node
	for i := range clients {
		clients[i] = s.client(nil)
	}
	s.lost(clients[0], had)
	s.let(2 * shortLease)
	var wait sync.WaitGroup
	granted := make(chan [2]time.Duration, len(clients)) // when each was asked for, and answered
	for _, n := range clients {
		wait.Go(func() {
			for range 20 {
				asked := s.passed()
				a, err := s.do(n, node.Acquire, request("name", "", 0))
				if err == nil && a.Status == node.Granted {
					granted <- [2]time.Duration{asked, s.passed()}
				}
				if err == nil && a.Status != node.Rejoining {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	wait.Wait()
	close(granted)
	var all [][2]time.Duration
	for b := range granted {
		for _, a := range all {
			if max(a[1], b[1])-min(a[0], b[0]) < shortLease {
				s.fail("two clients have been granted one name at once, in %v and %v", a, b)
			}
		}
		all = append(all, b)
	}
	s.until(clients[0], "another name")
}
