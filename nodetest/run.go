package nodetest

import (
	"cmp"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Harness is an engine under test.
type Harness struct {
	// Node is a node on an empty store, ready for operations: a node.Rejoiner
	// is joined and admitted. Other is a second client of the same store, as
	// another process would have. The suite closes both.
	Node, Other node.Node
	// Wait lets at least d pass on the store's clock: it moves a fake clock by d, or
	// is time.Sleep. For a store whose leases may outlive their TTL by a known
	// time, add that here.
	Wait func(d time.Duration)
	// Fast says that Wait costs no real time. Rules that take many seconds are
	// only for such engines.
	Fast bool
	// Reboot has the machine boot again whose clock leases end by. It returns a client of the same
	// store of a process that has started since: the clock begins anew (node/clock). Reboot is for
	// engines that store leases by such a clock, and nil for all others.
	Reboot func() node.Node
	// Patience is for how long the suite waits for a notification, or for the outcome of a started
	// operation, before it gives up. Zero is ten seconds.
	Patience time.Duration
}

// Run runs the suite, one subtest per rule. It calls open for each, with the
// subtest's own t: stop there with t.Cleanup whatever open has started. The
// subtests count goroutines, so nothing else may run beside them: don't call
// Run in parallel tests.
//
// The rules of waiter queues are for nodes that are a node.Queuer. All rules run once more for a
// node.Starter, with some for a node.Ordered. To know that, Run opens one more harness, with the t
// of the whole suite.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	probe := open(t)
	probe.Node.Close()
	probe.Other.Close()
	run := func(prefix string, open func(t *testing.T) *suite) {
		rules, queues := cases, queueCases
		if _, ok := probe.Node.Engine().(node.Admin); ok {
			rules = slices.Concat(rules, adminCases)
		}
		if _, ok := probe.Node.Engine().(node.Sharer); ok {
			rules, queues = slices.Concat(rules, sharedCases), slices.Concat(queues, sharedQueueCases)
		}
		for _, rule := range rules {
			if name := nameOf(rule); prefix == "" || name != "DoneContextIsAnError" { // Start has no context
				t.Run(prefix+name, func(t *testing.T) { rule(open(t)) })
			}
		}
		if _, ok := probe.Node.Engine().(node.Queuer); !ok {
			return
		}
		if probe.Fast {
			queues = slices.Concat(queues, slowQueueCases)
		}
		for _, rule := range queues {
			t.Run(prefix+nameOf(rule), func(t *testing.T) { open(t).inTime(rule) })
		}
	}
	run("", func(t *testing.T) *suite { return newSuite(t, open) })
	if _, ok := probe.Node.(node.Starter); !ok {
		return
	}
	started := func(t *testing.T) *suite {
		s := newSuite(t, open)
		s.start = true
		return s
	}
	run("Started", started)
	rules := startCases
	if o, ok := probe.Node.(node.Ordered); ok && o.InOrder() {
		rules = append(rules, startedStaysInOrder)
	}
	for _, rule := range rules {
		t.Run(nameOf(rule), func(t *testing.T) { rule(started(t)) })
	}
}

// nameOf returns the name of a rule's subtest: that of its function.
func nameOf(rule any) string {
	name := runtime.FuncForPC(reflect.ValueOf(rule).Pointer()).Name()
	name = name[strings.LastIndex(name, ".")+1:]
	return strings.ToUpper(name[:1]) + name[1:]
}

// newSuite opens a harness for one subtest.
func newSuite(t *testing.T, open func(t *testing.T) Harness) *suite {
	noLeak(t)
	given := open(t)
	s := &suite{T: t, ctx: t.Context(), wait: given.Wait, fast: given.Fast, reboot: given.Reboot, fail: t.Fatalf}
	s.patience = cmp.Or(given.Patience, 10*time.Second)
	s.node, s.other = &watched{Node: given.Node, in: s}, &watched{Node: given.Other, in: s}
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
var cases = []func(*suite){
	acquireGrantsTheLargerOfNextAndProposal, registerServesItsWholeStripe, acquireRefusesWhileLeased,
	acquireRefusesItsOwnHolder, leaseEndsByItself, leaseLastsItsTTL, badTTLChangesNothing, hugeTTLIsNeverAnEmptyGrant,
	badTokenChangesNothing, tokensStayExact, emptyHolderChangesNothing, unknownOperationChangesNothing,
	confirmRaisesTheRegister, confirmRefusesAnOutrunToken, confirmNeedsTheLease, confirmDoesNotProlong,
	extendSetsTheNewTTL, extendReportsTheOrigin, extendRepairsAVacantLease, extendTellsThatTheRegisterPassed,
	extendRefusesAnothersLease, releaseFreesAtOnce, releaseLeavesAnothersLease, releaseAfterTheEndIsLost,
	inspectShowsLeaseAndRegister, labelsAreShownIdentitiesAreNot, namesNeverMix, namesAreNotBookkeeping,
	registersAreComplete, registersNameOneStore,
	leasesEndWithTheBoot,
	oneOfTwoClientsWins, registersGrowUnderLoad, doneContextIsAnError, closeEndsOnlyThisClient,
}

// adminCases are those for a node.Admin.
var adminCases = []func(*suite){
	forceReleaseShutsOutTheOldHolder, forceReleaseRespectsTheFloor,
	leaseShowsItsHolder, listShowsEveryLeaseOnce, listShowsNamesWithAPrefix,
}

// startCases are those for a node.Starter.
var startCases = []func(*suite){startedForceReleaseIsRefused, startedUnwantedIsNotSent}

// queueCases are the rules for a node.Queuer.
var queueCases = []func(*queueSuite){
	refusedWithAPlaceIsQueued, queueGoesByStamp, equalStampsGoByWaiter, askingAgainKeepsThePlace,
	aheadCountsThoseBefore, queuesNeverMix, badPlaceChangesNothing, listenNeedsAClient, heldCarriesTheClock,
	freeNameGoesToTheFirst, firstIsGrantedAndLeaves, expiryNotifiesNobody, releaseNotifiesTheFirst,
	forceReleaseNotifiesTheFirst, refusedIsNotified, closedListenerIsSkipped, healthyNodeMissesNothing,
	reservedNameRefusesOthers, reservedNameIsNotTheOldHolders, reservedNameGivesWayToAnExtension, reservingMovesNoRegister,
	reservedNameShowsTheNextInQueue, reservationEnds, leavingIsFinal, leavingPassesOnWhatIsReserved,
	failedAttemptIsQueuedAgain, failedAttemptNotifiesAnEarlierOne, failedAttemptGivesUpWhatIsReserved,
	waitingShowsTheQueue, labelledWaiterIsNotified,
}

// slowQueueCases are only where Harness.Fast.
var slowQueueCases = []func(*queueSuite){queueIsForgotten, queueIsRememberedWhileSomebodyAsks}
