package nodetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Harness is an engine under test.
type Harness struct {
	// Node is a node on an empty store, ready for operations: a node.Rejoiner
	// is joined and admitted. Other is a second client of the same store, as
	// another process would have. The suite closes both.
	Node, Other node.Node
	// Wait lets at least d pass on the store's clock: it moves a fake clock, or
	// is time.Sleep. For a store whose leases may outlive their TTL by a known
	// time, add that here.
	Wait func(d time.Duration)
	// Fast says that Wait costs no real time. Rules that take many seconds are
	// only for such engines.
	Fast bool
	// Patience is for how long the suite waits for a notification to arrive, or for the
	// outcome of an operation that was started, before it says that there is none.
	// Zero is ten seconds.
	Patience time.Duration
}

// Run runs the suite, one subtest per rule. It calls open for each, with the
// subtest's own t: stop there with t.Cleanup whatever open has started. The
// subtests count goroutines, so nothing else may run beside them: don't call
// Run in parallel tests.
//
// The rules of waiter queues are for nodes that are a node.Queuer, and all rules
// run once more for a node.Starter. To know that, Run opens one more
// harness, with the t of the whole suite.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	probe := open(t)
	probe.Node.Close()
	probe.Other.Close()
	run := func(prefix string, rules func(t *testing.T) *suite) {
		for _, c := range cases {
			if prefix == "" || c.name != "DoneContextIsAnError" { // Start has no context
				t.Run(prefix+c.name, func(t *testing.T) { c.test(rules(t)) })
			}
		}
		if _, ok := probe.Node.Engine().(node.Queuer); !ok {
			return
		}
		for _, c := range queueCases {
			if !c.slow || probe.Fast {
				t.Run(prefix+c.name, func(t *testing.T) { rules(t).inTime(c.test) })
			}
		}
	}
	run("", func(t *testing.T) *suite { return newSuite(t, open) })
	if _, ok := probe.Node.(node.Starter); !ok {
		return
	}
	started := func(t *testing.T) *suite {
		s := newSuite(t, open)
		s.node.start, s.other.start = true, true
		return s
	}
	run("Started", started)
	t.Run("StartedForceReleaseIsRefused", func(t *testing.T) { startedForceReleaseIsRefused(started(t)) })
	t.Run("StartedUnwantedIsNotSent", func(t *testing.T) { startedUnwantedIsNotSent(started(t)) })
	if o, ok := probe.Node.(node.Ordered); ok && o.InOrder() {
		t.Run("StartedStaysInOrder", func(t *testing.T) { startedStaysInOrder(started(t)) })
	}
}

// newSuite opens a harness for one subtest.
func newSuite(t *testing.T, open func(t *testing.T) Harness) *suite {
	noLeak(t)
	given := open(t)
	seen := new(secrets)
	patience := cmp.Or(given.Patience, 10*time.Second)
	s := &suite{T: t, ctx: t.Context(), wait: given.Wait, patience: patience,
		node:  &watched{Node: given.Node, t: t, seen: seen, patience: patience},
		other: &watched{Node: given.Other, t: t, seen: seen, patience: patience}}
	t.Cleanup(func() {
		s.node.Close()
		s.other.Close()
	})
	if given.Node.String() == "" {
		t.Fatal("String is empty: an operator could not tell which node an error is about")
	}
	return s
}

// cases are the rules, in the order in which a new engine grows.
var cases = []struct {
	name string
	test func(*suite)
}{
	{"AcquireGrantsTheLargerOfNextAndProposal", acquireGrantsTheLargerOfNextAndProposal},
	{"RegisterServesItsWholeStripe", registerServesItsWholeStripe},
	{"AcquireRefusesWhileLeased", acquireRefusesWhileLeased},
	{"AcquireRefusesItsOwnHolder", acquireRefusesItsOwnHolder},
	{"LeaseEndsByItself", leaseEndsByItself},
	{"BadTTLChangesNothing", badTTLChangesNothing},
	{"HugeTTLIsNeverAnEmptyGrant", hugeTTLIsNeverAnEmptyGrant},
	{"BadTokenChangesNothing", badTokenChangesNothing},
	{"TokensStayExact", tokensStayExact},
	{"EmptyHolderChangesNothing", emptyHolderChangesNothing},
	{"UnknownOperationChangesNothing", unknownOperationChangesNothing},

	{"ConfirmRaisesTheRegister", confirmRaisesTheRegister},
	{"ConfirmRefusesAnOutrunToken", confirmRefusesAnOutrunToken},
	{"ConfirmNeedsTheLease", confirmNeedsTheLease},
	{"ConfirmDoesNotProlong", confirmDoesNotProlong},

	{"ExtendSetsTheNewTTL", extendSetsTheNewTTL},
	{"ExtendReportsTheRegister", extendReportsTheRegister},
	{"ExtendRepairsAVacantLease", extendRepairsAVacantLease},
	{"ExtendRefusesWhenTheRegisterPassed", extendRefusesWhenTheRegisterPassed},
	{"ExtendRefusesAnothersLease", extendRefusesAnothersLease},

	{"ReleaseFreesAtOnce", releaseFreesAtOnce},
	{"ReleaseLeavesAnothersLease", releaseLeavesAnothersLease},
	{"ReleaseAfterTheEndIsLost", releaseAfterTheEndIsLost},
	{"ForceReleaseShutsOutTheOldHolder", forceReleaseShutsOutTheOldHolder},
	{"ForceReleaseRespectsTheFloor", forceReleaseRespectsTheFloor},

	{"InspectShowsLeaseAndRegister", inspectShowsLeaseAndRegister},
	{"ListShowsEveryLeaseOnce", listShowsEveryLeaseOnce},
	{"LabelsAreShownIdentitiesAreNot", labelsAreShownIdentitiesAreNot},
	{"NamesNeverMix", namesNeverMix},
	{"NamesAreNotBookkeeping", namesAreNotBookkeeping},
	{"RegistersAreComplete", registersAreComplete},

	{"OneOfTwoClientsWins", oneOfTwoClientsWins},
	{"RegistersGrowUnderLoad", registersGrowUnderLoad},
	{"DoneContextIsAnError", doneContextIsAnError},
	{"CloseEndsOnlyThisClient", closeEndsOnlyThisClient},
}

// queueCases are the rules for a node.Queuer.
var queueCases = []struct {
	name string
	test func(*queueSuite)
	slow bool // only where Harness.Fast
}{
	{"RefusedWithAPlaceIsQueued", refusedWithAPlaceIsQueued, false},
	{"QueueGoesByStamp", queueGoesByStamp, false},
	{"EqualStampsGoByWaiter", equalStampsGoByWaiter, false},
	{"AskingAgainKeepsThePlace", askingAgainKeepsThePlace, false},
	{"AheadCountsThoseBefore", aheadCountsThoseBefore, false},
	{"QueuesNeverMix", queuesNeverMix, false},
	{"BadPlaceChangesNothing", badPlaceChangesNothing, false},
	{"ListenNeedsAClient", listenNeedsAClient, false},
	{"HeldCarriesTheClock", heldCarriesTheClock, false},
	{"QueueIsForgotten", queueIsForgotten, true},
	{"QueueIsRememberedWhileSomebodyAsks", queueIsRememberedWhileSomebodyAsks, true},

	{"FreeNameGoesToTheFirst", freeNameGoesToTheFirst, false},
	{"FirstIsGrantedAndLeaves", firstIsGrantedAndLeaves, false},
	{"ExpiryNotifiesNobody", expiryNotifiesNobody, false},
	{"ReleaseNotifiesTheFirst", releaseNotifiesTheFirst, false},
	{"ForceReleaseNotifiesTheFirst", forceReleaseNotifiesTheFirst, false},
	{"RefusedIsNotified", refusedIsNotified, false},
	{"ClosedListenerIsSkipped", closedListenerIsSkipped, false},
	{"HealthyNodeMissesNothing", healthyNodeMissesNothing, false},

	{"ReservedNameRefusesOthers", reservedNameRefusesOthers, false},
	{"ReservedNameIsNotTheOldHolders", reservedNameIsNotTheOldHolders, false},
	{"ReservingMovesNoRegister", reservingMovesNoRegister, false},
	{"ReservedNameShowsTheNextInQueue", reservedNameShowsTheNextInQueue, false},
	{"ReservationEnds", reservationEnds, false},

	{"LeavingIsFinal", leavingIsFinal, false},
	{"LeavingPassesOnWhatIsReserved", leavingPassesOnWhatIsReserved, false},
	{"FailedAttemptIsQueuedAgain", failedAttemptIsQueuedAgain, false},
	{"FailedAttemptNotifiesAnEarlierOne", failedAttemptNotifiesAnEarlierOne, false},
	{"FailedAttemptGivesUpWhatIsReserved", failedAttemptGivesUpWhatIsReserved, false},
}

// Leases of ttl long are there for as long as a test can take, on a slow
// machine under the race detector too. Those of ttl short are only ever waited out:
// no test assumes that one is still there.
const (
	long  = 2 * time.Minute
	short = 50 * time.Millisecond
)

// suite is one subtest's view of the engine.
type suite struct {
	*testing.T
	ctx         context.Context
	node, other *watched
	wait        func(time.Duration)
	patience    time.Duration
}

// outwait lets a lease of ttl short end. Half as much again is for stores that
// look at their clock now and then.
func (s *suite) outwait() { s.wait(short + short/2) }

// request is one holder's request, with ttl long.
func request(name, label string, token fence.Token) node.Request {
	return node.Request{Name: name, Holder: node.Holder(identity() + ":" + label), TTL: long, Token: token}
}

// identity returns random digits, as a holder or a client has them.
func identity() string {
	id := make([]byte, 16)
	rand.Read(id)
	return hex.EncodeToString(id)
}

// with returns the request for another token.
func with(r node.Request, token fence.Token) node.Request {
	r.Token = token
	return r
}

// lasting returns the request for another ttl.
func lasting(r node.Request, ttl time.Duration) node.Request {
	r.TTL = ttl
	return r
}

// want returns a check of an operation's result, for use around its call. The
// test ends if the answer is another one.
func (s *suite) want(status node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		s.Helper()
		if err != nil {
			s.Fatalf("no answer: %v; want %v", err, status)
		}
		if a.Status != status {
			s.Fatalf("answered %+v; want %v", a, status)
		}
		return a
	}
}

// invalid checks that an operation was refused as malformed.
func (s *suite) invalid(what string, of any, a node.Answer, err error) {
	s.Helper()
	if !errors.Is(err, node.ErrInvalid) {
		s.Fatalf("%s %v: %+v, %v; want ErrInvalid", what, of, a, err)
	}
}

// register checks the number that an answer carries.
func (s *suite) register(a node.Answer, want fence.Token) {
	s.Helper()
	if a.Register != want {
		s.Fatalf("the answer %+v carries register %d; want %d", a, a.Register, want)
	}
}

// leased checks what the second client sees of a name. The label "" with
// remaining false means that nobody has it.
func (s *suite) leased(name, label string, remaining bool, register fence.Token) {
	s.Helper()
	l, err := s.other.Inspect(s.ctx, name)
	if err != nil {
		s.Fatalf("inspect %q: %v", name, err)
	}
	if l.Name != name || l.Label != label || l.Register != register || (l.Remaining != 0) != remaining {
		s.Fatalf("inspect %q: %+v; want label %q, leased %v, register %d", name, l, label, remaining, register)
	}
	if remaining {
		s.plausible(l.Remaining)
	}
}

// plausible checks the time that a lease of ttl long has left. The lower bound
// catches a wrong unit, not a slow machine.
func (s *suite) plausible(remaining time.Duration) {
	s.Helper()
	if remaining <= long/60 || remaining > long {
		s.Fatalf("%v remain of a lease of %v", remaining, long)
	}
}

// sameStripe returns n names that share a register, and one that does not.
func sameStripe(prefix string, n int) (same []string, different string) {
	stripe := node.Stripe(prefix)
	same = []string{prefix}
	for i := 0; len(same) < n || different == ""; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		if node.Stripe(name) != stripe {
			different = name
		} else if len(same) < n {
			same = append(same, name)
		}
	}
	return same, different
}

// noLeak fails the test if it leaves goroutines behind. It must come before
// whatever starts them, because clean-ups run in reverse.
func noLeak(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		// Goroutines end a little after the call that ended them.
		for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<16)
				t.Errorf("%d goroutines, %d before the test; after both nodes were closed:\n%s",
					runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				return
			}
		}
	})
}
