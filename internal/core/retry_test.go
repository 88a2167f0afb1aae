package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node/rule"
)

// All times of these tests. An attempt was refused at 100 s, by leases that have no end unless a
// test says otherwise, in a group of three nodes.
const refusedAt = 100 * time.Second

const (
	earliest = refusedAt + core.Backstop*3/4 // when random is 0
	middle   = refusedAt + core.Backstop     // when random is 0.5
)

func heldFor(remaining time.Duration, ahead int) core.Refusal {
	return core.Refusal{Status: core.Held, Remaining: remaining, Ahead: ahead}
}

// endless are the answers of n nodes whose leases have no end that is known.
func endless(n, ahead int) []core.Refusal {
	return slices.Repeat([]core.Refusal{heldFor(0, ahead)}, n)
}

// refused is a retry after its first attempt, on as many nodes as have answered.
func refused(said ...core.Refusal) core.Retry { return refusedWith(0, said...) }

func refusedWith(random float64, said ...core.Refusal) core.Retry {
	t := core.NewRetry(len(said))
	t.Begin()
	t.Refused(refusedAt, said, false, random)
	return t
}

func due(t *testing.T, retry core.Retry, want time.Duration) {
	t.Helper()
	if got := retry.Due(); got != want {
		t.Errorf("due at %v, expected %v (%v later)", got, want, want-got)
	}
}

func TestRetryIsDue(t *testing.T) {
	const ms = time.Millisecond
	free, unknown, out := core.Refusal{Status: core.Granted}, core.Refusal{}, core.Refusal{Status: core.Rejoining}
	type row struct {
		name   string
		random float64
		said   []core.Refusal
		want   time.Duration // after the refusal
	}
	held := func(remaining ...time.Duration) (said []core.Refusal) {
		for _, r := range remaining {
			said = append(said, heldFor(r, 0))
		}
		return said
	}
	watching := func(remaining time.Duration, ahead int) []core.Refusal {
		return []core.Refusal{{Status: core.Held, Remaining: remaining, Ahead: ahead, Watching: true}}
	}
	rows := []row{
		// "Backstop is the longest that a waiter stays silent, give or take a quarter".
		{"the backstop, early", 0, endless(3, 0), 2250 * ms},
		{"the backstop, a bit later", 0.25, endless(3, 0), 2625 * ms},
		{"the backstop", 0.5, endless(3, 0), 3000 * ms},
		{"the backstop, late", 0.75, endless(3, 0), 3375 * ms},
		{"just under the latest", 1 - 1e-12, endless(3, 0), 3750*ms - 1},

		// A waiter asks about those before it: a reservation for each, since each may be
		// hung, up to the backstop.
		{"one ahead", 0.5, endless(3, 1), 1000 * ms},
		{"two ahead", 0.5, endless(3, 2), 2000 * ms},
		{"three ahead", 0.5, endless(3, 3), 3000 * ms},
		{"four ahead", 0.5, endless(3, 4), 3000 * ms},
		{"many ahead", 0.5, endless(3, 9_999), 3000 * ms},
		{"the backstop is earlier than the third of those ahead", 0, endless(3, 3), 2250 * ms},
		// Where the end of a process is heard of, the first looks so often that the queue is
		// remembered. The others look for those before them that may be hung.
		{"watching, the first", 0.5, watching(0, 0), 10_000 * ms},
		{"watching, the first, late", 1 - 1e-12, watching(0, 0), 12_500*ms - 1},
		{"watching, the first, behind a reservation", 0.5, watching(1000*ms, 0), 1001 * ms},
		{"watching, one ahead", 0.5, watching(0, 1), 1000 * ms},
		{"watching, 9 ahead", 0.5, watching(0, 9), 9000 * ms},
		{"watching, many ahead", 0.5, watching(0, 9_999), 10_000 * ms},
		{"watching, many ahead, early", 0, watching(0, 9_999), 7500 * ms},
		{"watching, behind others a reservation is not waited for, but may be of one that is stopped", 0.5,
			watching(1000*ms, 7), 3000 * ms},
		{"one of three nodes watches", 0.5, append(watching(0, 0), endless(2, 0)...), 3000 * ms},
		// The place is what most nodes say, see Ahead.
		{"the median place", 0.5, []core.Refusal{heldFor(0, 0), heldFor(0, 7), heldFor(0, 1)}, 1000 * ms},
		{"a node that did not refuse does not count as nobody ahead", 0.5, []core.Refusal{free, unknown, heldFor(0, 1)},
			1000 * ms},

		// When the leases of so many nodes end that a majority is free, a waiter looks: a
		// millisecond later, since nodes count whole ones.
		{"the second of three counts", 0, held(900*ms, 300*ms, 500*ms), 501 * ms},
		{"a node that granted is free now", 0, append(held(300*ms, 500*ms), free), 301 * ms},
		{"a majority that granted", 0, []core.Refusal{free, free, heldFor(0, 0)}, ms},
		{"the third of five counts", 0, held(5*ms, 4*ms, 3*ms, 2*ms, ms), 4 * ms},
		{"the third of four counts", 0, held(4*ms, 3*ms, 2*ms, ms), 4 * ms},
		{"one node counts", 0, held(700 * ms), 701 * ms},
		{"an end that is not known is not one", 0, held(300*ms, 0, 0), 2250 * ms},
		{"nor is a node that did not answer", 0, append(held(300*ms, 0), unknown), 2250 * ms},
		{"nor one that is rejoining", 0, append(held(300*ms, 0), out), 2250 * ms},
		{"two that are known suffice", 0, append(held(300*ms, 200*ms), unknown), 301 * ms},
		{"not later than the backstop", 0, append(held(2249*ms, 2249*ms), unknown), 2250 * ms},
		{"one nanosecond before it", 0, append(held(2249*ms-1, 2249*ms-1), unknown), 2250*ms - 1},
		{"one nanosecond after it", 0, append(held(2249*ms+1, 2249*ms+1), unknown), 2250 * ms},
		{"nobody's place makes the moment overflow", 0, slices.Repeat([]core.Refusal{heldFor(ms, 1<<60)}, 3), 2250 * ms},
	}
	// "first for the first in the queue, a little later for each of the others". The
	// backstop is earlier than the turn of the 35th.
	for _, ahead := range []int{0, 1, 5, 34, 35, 64, 65} {
		want := min(101*ms+time.Duration(ahead)*rule.ReservationTTL/16, 2250*ms)
		rows = append(rows, row{fmt.Sprint("leases end, ahead are ", ahead), 0,
			slices.Repeat([]core.Refusal{heldFor(100*ms, ahead)}, 3), want})
	}
	// Where no quorum answers, no node may be there to notify: the waiter polls.
	for random, interval := range map[float64]time.Duration{0: 50 * ms, 0.5: 100 * ms, 0.75: 125 * ms} {
		for _, said := range [][]core.Refusal{
			{unknown, unknown, unknown}, append(held(0), unknown, unknown), append(held(0), out, out),
			append(held(0, 0), unknown, unknown),
		} {
			rows = append(rows, row{fmt.Sprint("polls: ", said), random, said, interval})
		}
		for _, said := range [][]core.Refusal{append(held(0, 0), unknown), append(held(0), free, unknown),
			append(held(0, 0, 0), unknown)} {
			rows = append(rows, row{fmt.Sprint("a quorum: ", said), random, said,
				time.Duration((0.75 + random/2) * float64(core.Backstop))})
		}
	}
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) { due(t, refusedWith(c.random, c.said...), refusedAt+c.want) })
	}
}

// A waiter of a queue has it remembered also if no other waiter asks.
func TestQueueIsRememberedByEachWaiter(t *testing.T) {
	if latest := core.WatchedBackstop * 5 / 4; latest > rule.QueueExpiry-2*time.Second {
		t.Errorf("it asks after %v, and the queue is forgotten after %v", latest, rule.QueueExpiry)
	}
}

// A notification hurries a waiter that polls, too.
func TestRetryPollsUntilNotified(t *testing.T) {
	retry := refusedWith(0.75, core.Refusal{}, core.Refusal{}, core.Refusal{})
	retry.Notified(0, refusedAt)
	due(t, retry, refusedAt+62500*time.Microsecond)
}

// While no quorum answers, a waiter pauses for longer and longer. Once one has, that begins anew.
func TestRetryPollsLessAndLess(t *testing.T) {
	const ms = time.Millisecond
	silent := make([]core.Refusal, 3)
	retry := core.NewRetry(3)
	for _, c := range []struct {
		at, want time.Duration
		said     []core.Refusal
	}{
		{0, 100 * ms, silent}, {100 * ms, 100 * ms, silent}, {1600 * ms, 100 * ms, silent},
		{1700 * ms, 212500 * time.Microsecond, silent},
		{time.Hour, 3000 * ms, endless(3, 0)}, {2 * time.Hour, 100 * ms, silent},
		{2*time.Hour + 100*ms, 100 * ms, silent},
	} {
		retry.Begin()
		retry.Refused(refusedAt+c.at, c.said, false, 0.5)
		due(t, retry, refusedAt+c.at+c.want)
	}
}

// A waiter in a queue that is not notified polls, less often the further back it is.
func TestRetryPollsByPlace(t *testing.T) {
	const ms = time.Millisecond
	for ahead, want := range map[int]time.Duration{0: 100 * ms, 1: 100 * ms, 8: 100 * ms, 9: 112500 * time.Microsecond,
		16: 200 * ms, 80: 1000 * ms, 239: 2987500 * time.Microsecond, 241: 3000 * ms, 10_000: 3000 * ms, 1 << 60: 3000 * ms} {
		retry := core.NewRetry(3)
		for at := time.Duration(0); at < 10*time.Second; at += time.Second { // however long it has waited
			retry.Begin()
			retry.Refused(refusedAt+at, endless(3, ahead), true, 0.5)
			due(t, retry, refusedAt+at+want)
		}
	}
	// A thousand of them do not ask for more than some hundred times a second.
	rate := 0.0
	for ahead := range 1000 {
		retry := core.NewRetry(3)
		retry.Begin()
		retry.Refused(refusedAt, endless(3, ahead), true, 0.5)
		rate += 1 / (retry.Due() - refusedAt).Seconds()
	}
	if rate > 650 {
		t.Errorf("%.0f attempts a second", rate)
	}
	// The end of the lease is known.
	retry := core.NewRetry(1)
	retry.Begin()
	retry.Refused(refusedAt, []core.Refusal{heldFor(30*ms, 0)}, true, 0)
	due(t, retry, refusedAt+30*ms)
}

// Where most nodes keep no queue, and the others say nothing, a waiter does not know its place. It
// polls less and less often then, as if there were no queue. Nodes without a queue do not say that
// it is the first. And when a lease ends, it does not ask together with all others.
func TestRetryPollsWithoutAPlace(t *testing.T) {
	const ms = time.Millisecond
	without := endless(3, -1)
	placed := endless(3, -1)
	placed[1].Ahead = 80
	ends := endless(3, -1)
	for i := range ends {
		ends[i].Remaining = 200 * ms
	}
	retry, now := core.NewRetry(3), refusedAt
	pause := func(said []core.Refusal) time.Duration {
		retry.Begin()
		retry.Refused(now, said, true, 0.5)
		defer func() { now = retry.Due() }()
		return retry.Due() - now
	}
	first := pause(without)
	for now < refusedAt+5*time.Second {
		pause(without)
	}
	got := []time.Duration{first, pause(without), pause(placed), pause(without), pause(ends)}
	if want := []time.Duration{100 * ms, 500 * ms, 1000 * ms, 500 * ms, 225 * ms}; !slices.Equal(got, want) {
		t.Errorf("it pauses for %v, want %v", got, want)
	}
}

func TestAhead(t *testing.T) {
	for _, c := range []struct {
		counts []int
		want   int
	}{
		{nil, 0}, {[]int{4}, 4}, {[]int{3, 1}, 3}, {[]int{1, 3}, 3}, {[]int{9, 0, 1}, 1},
		{[]int{5, 2, 8, 3}, 5}, {[]int{0, 0, 10_000}, 0},
	} {
		if got := core.Ahead(slices.Clone(c.counts)); got != c.want {
			t.Errorf("Ahead(%v) = %d, expected %d", c.counts, got, c.want)
		}
	}
}

// A quorum that notifies is not kept waiting.
func TestRetryQuorumOfCalls(t *testing.T) {
	const now = refusedAt + 700*time.Millisecond
	for n, quorum := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3} {
		retry := refused(endless(n, 0)...)
		for node := range quorum - 1 {
			retry.Notified(node, now)
			retry.Notified(node, now) // a node that notifies twice is one
		}
		if retry.Due() <= now {
			t.Errorf("%d nodes: tries at once when %d have notified", n, quorum-1)
		}
		retry.Notified(quorum-1, now+1)
		due(t, retry, now+1)
	}
}

// A notification never makes a waiter later, nor do others that follow it.
func TestRetryCallsOnlyHurry(t *testing.T) {
	retry := refused(heldFor(time.Millisecond, 0), heldFor(time.Millisecond, 0), heldFor(0, 0))
	retry.Notified(0, refusedAt)
	due(t, retry, refusedAt+2*time.Millisecond)

	retry = refused(endless(5, 0)...)
	retry.Notified(0, refusedAt)
	due(t, retry, refusedAt+62500*time.Microsecond)
	retry.Notified(1, refusedAt+time.Millisecond)
	due(t, retry, refusedAt+62500*time.Microsecond)
	retry.Notified(2, refusedAt+2*time.Millisecond)
	due(t, retry, refusedAt+2*time.Millisecond)
}

// again makes an attempt.
func again(retry *core.Retry) {
	retry.Begin()
	retry.Refused(refusedAt, endless(3, 0), false, 0)
}

// inVain makes one for the notification of one node.
func inVain(retry *core.Retry) {
	retry.Notified(0, refusedAt)
	again(retry)
}

// patience fails unless a notification of one node waits so many sixteenths of the
// claim window.
func patience(t *testing.T, retry core.Retry, want time.Duration) {
	t.Helper()
	retry.Notified(0, refusedAt)
	due(t, retry, refusedAt+want*aWhile)
}

// "A waiter who tries in vain is ever more patient": each attempt for notifications of too few
// nodes doubles the next wait.
func TestRetryPatience(t *testing.T) {
	retry := refused(endless(3, 0)...)
	patience(t, retry, 1)
	for _, want := range []time.Duration{2, 4, 8, 16, 16, 16} {
		inVain(&retry)
		patience(t, retry, want)
	}
	// An attempt without a notification takes one step back.
	for _, want := range []time.Duration{8, 4, 2, 1, 1} {
		again(&retry)
		patience(t, retry, want)
	}
	// An attempt for the notifications of a quorum takes all of them.
	inVain(&retry)
	inVain(&retry)
	retry.Notified(1, refusedAt)
	retry.Notified(2, refusedAt)
	again(&retry)
	patience(t, retry, 1)
	// The first attempt of all was made for no notification.
	retry = core.NewRetry(3)
	retry.Begin()
	again(&retry)
	patience(t, retry, 1)
}

// Notifications during an attempt are for the next one: they cannot interrupt this one,
// and count once it is refused.
func TestRetryNotifiedDuringAnAttempt(t *testing.T) {
	retry := refused(endless(3, 0)...)
	retry.Begin()
	before := retry.Due()
	retry.Notified(0, refusedAt+time.Second)
	retry.Missed(refusedAt + time.Second)
	due(t, retry, before)

	again(&retry) // forgets both
	due(t, retry, earliest)

	retry.Begin()
	retry.Notified(1, refusedAt-2)
	retry.Notified(2, refusedAt-1)
	retry.Refused(refusedAt, endless(3, 0), false, 0)
	due(t, retry, refusedAt)

	retry = core.NewRetry(3)
	retry.Begin()
	retry.Notified(2, refusedAt-time.Second)
	retry.Refused(refusedAt, endless(3, 0), false, 0)
	due(t, retry, refusedAt+aWhile) // one waits from the end of the attempt on
}

// "Missed tells that a notification may have been lost": look at once, once.
func TestRetryMissed(t *testing.T) {
	retry := refused(endless(3, 0)...)
	retry.Missed(refusedAt + 10)
	due(t, retry, refusedAt+10)
	retry.Missed(refusedAt + 20) // no reason to be later
	due(t, retry, refusedAt+10)

	retry.Begin()
	retry.Missed(refusedAt + 30)
	retry.Refused(refusedAt+40, endless(3, 0), false, 0)
	due(t, retry, refusedAt+40)

	again(&retry) // that was it
	due(t, retry, earliest)
	patience(t, retry, 1) // an attempt for a lost notification is not one in vain
}

// Nothing is left of when the attempt before was to be followed.
func TestRetryRefusedAgain(t *testing.T) {
	retry := refused(heldFor(time.Millisecond, 0), heldFor(time.Millisecond, 0), heldFor(0, 0))
	due(t, retry, refusedAt+2*time.Millisecond)
	retry.Begin()
	retry.Refused(refusedAt, endless(3, 0), false, 0.5)
	due(t, retry, middle)
}

// Where no node notifies, a lease that ends before the next look is waited for.
func TestPollDelay(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		said   []core.Refusal
		polled time.Duration
		random float64
		want   time.Duration
	}{
		{nil, 0, 0, 50 * ms},
		{nil, 0, 0.5, 100 * ms},
		{[]core.Refusal{heldFor(0, 0), heldFor(time.Minute, 0)}, 0, 0, 50 * ms},
		{[]core.Refusal{heldFor(20*ms, 0), heldFor(30*ms, 0)}, 0, 0.5, 35 * ms},
		{[]core.Refusal{heldFor(50*ms, 0)}, 0, 0, 50 * ms},
		{[]core.Refusal{heldFor(50*ms-1, 0)}, 0, 0, 50*ms - 1},
		{[]core.Refusal{{Status: core.Granted, Remaining: ms}}, 0, 0, 50 * ms},

		// An eighth of the time that it has polled, up to half a second.
		{nil, 800 * ms, 0.5, 100 * ms},
		{nil, 808 * ms, 0.5, 101 * ms},
		{nil, 3200 * ms, 0, 200 * ms},
		{nil, 3200 * ms, 0.75, 500 * ms},
		{nil, 4000 * ms, 0.5, 500 * ms},
		{nil, 4008 * ms, 0.5, 500 * ms},
		{nil, time.Hour, 1 - 1e-12, 750*ms - 1},
		// At the end of a lease the more pollers there may be, the less they are in step.
		{[]core.Refusal{heldFor(300*ms, 0)}, time.Hour, 0.5, 325 * ms},
	} {
		if got := core.PollDelay(c.said, c.polled, 0, c.random); got != c.want {
			t.Errorf("%+v after %v at %v: %v, want %v", c.said, c.polled, c.random, got, c.want)
		}
	}
	// Where nodes are silent, an attempt is a pause by itself. One that began before it was due is
	// none.
	for took, want := range map[time.Duration]time.Duration{150 * ms: 350 * ms, 400 * ms: 100 * ms, 750 * ms: 100 * ms,
		-750 * ms: 500 * ms} {
		if got := core.PollDelay(nil, time.Hour, took, 0.5); got != want {
			t.Errorf("after an attempt of %v: %v, want %v", took, got, want)
		}
	}
}

// Each pause is longer than the one before, and none is longer than a waiter's.
func TestMeetDelay(t *testing.T) {
	for _, took := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second} {
		last := time.Duration(0)
		for attempts := 1; attempts < core.MeetAttempts; attempts++ {
			least, most := core.MeetDelay(attempts, took, 0), core.MeetDelay(attempts, took, 0.999)
			if least < last || least < min(took, core.Backstop/2) || most < 2*least || most > core.Backstop*3/2 {
				t.Errorf("%v, attempt %d: %v to %v", took, attempts, least, most)
			}
			last = least
		}
	}
}
