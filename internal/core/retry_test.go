package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node/rule"
)

// All times of these tests: an attempt that was refused at 100 s, by leases that
// have no end unless a test says otherwise, in a group of three nodes.
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
func refused(said ...core.Refusal) core.Retry {
	t := core.NewRetry(len(said))
	t.Begin()
	t.Refused(refusedAt, said, 0)
	return t
}

func due(t *testing.T, retry core.Retry, want time.Duration) {
	t.Helper()
	if got := retry.Due(); got != want {
		t.Errorf("due at %v, expected %v (%v later)", got, want, want-got)
	}
}

// "Backstop is the longest that a waiter stays silent, give or take a quarter".
func TestRetryBackstop(t *testing.T) {
	for random, want := range map[float64]time.Duration{
		0:    2250 * time.Millisecond,
		0.25: 2625 * time.Millisecond,
		0.5:  3 * time.Second,
		0.75: 3375 * time.Millisecond,
	} {
		retry := core.NewRetry(3)
		retry.Begin()
		retry.Refused(refusedAt, endless(3, 0), random)
		due(t, retry, refusedAt+want)
	}
	retry := core.NewRetry(3)
	retry.Begin()
	retry.Refused(refusedAt, endless(3, 0), 1-1e-12)
	if got := retry.Due() - refusedAt; got >= 3750*time.Millisecond || got < 3749*time.Millisecond {
		t.Errorf("due after %v, expected just under 3.75s", got)
	}
}

// A waiter asks about those before it: a reservation for each, since each may be
// hung, up to the backstop.
func TestRetryAsksAboutThoseAhead(t *testing.T) {
	for ahead, want := range map[int]time.Duration{
		0: 3 * time.Second, 1: time.Second, 2: 2 * time.Second, 3: 3 * time.Second, 4: 3 * time.Second, 9_999: 3 * time.Second,
	} {
		retry := core.NewRetry(3)
		retry.Begin()
		retry.Refused(refusedAt, endless(3, ahead), 0.5)
		due(t, retry, refusedAt+want)
	}
	// The backstop is earlier than the third of those ahead.
	due(t, refused(endless(3, 3)...), earliest)
}

// When the leases of so many nodes end that a majority is free, a waiter looks: a
// millisecond later, since nodes count whole ones.
func TestRetryWhenLeasesEnd(t *testing.T) {
	const ms = time.Millisecond
	free := core.Refusal{Status: core.Granted}
	unknown, out := core.Refusal{}, core.Refusal{Status: core.Rejoining}
	for _, c := range []struct {
		name string
		said []core.Refusal
		want time.Duration // after the refusal
	}{
		{"the second of three counts", []core.Refusal{heldFor(900*ms, 0), heldFor(300*ms, 0), heldFor(500*ms, 0)}, 501 * ms},
		{"a node that granted is free now", []core.Refusal{free, heldFor(300*ms, 0), heldFor(500*ms, 0)}, 301 * ms},
		{"a majority that granted", []core.Refusal{free, free, heldFor(0, 0)}, ms},
		{"the third of five counts", []core.Refusal{heldFor(5*ms, 0), heldFor(4*ms, 0), heldFor(3*ms, 0), heldFor(2*ms, 0), heldFor(ms, 0)}, 4 * ms},
		{"the third of four counts", []core.Refusal{heldFor(4*ms, 0), heldFor(3*ms, 0), heldFor(2*ms, 0), heldFor(ms, 0)}, 4 * ms},
		{"one node counts", []core.Refusal{heldFor(700*ms, 0)}, 701 * ms},
		{"an end that is not known is not one", []core.Refusal{heldFor(300*ms, 0), heldFor(0, 0), heldFor(0, 0)}, 2250 * ms},
		{"nor is a node that did not answer", []core.Refusal{heldFor(300*ms, 0), unknown, heldFor(0, 0)}, 2250 * ms},
		{"nor one that is rejoining", []core.Refusal{heldFor(300*ms, 0), out, heldFor(0, 0)}, 2250 * ms},
		{"two that are known suffice", []core.Refusal{heldFor(300*ms, 0), unknown, heldFor(200*ms, 0)}, 301 * ms},
		{"not later than the backstop", []core.Refusal{heldFor(2249*ms, 0), heldFor(2249*ms, 0), unknown}, 2250 * ms},
		{"one nanosecond before it", []core.Refusal{heldFor(2249*ms-1, 0), heldFor(2249*ms-1, 0), unknown}, 2250*ms - 1},
		{"one nanosecond after it", []core.Refusal{heldFor(2249*ms+1, 0), heldFor(2249*ms+1, 0), unknown}, 2250 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			retry := refused(c.said...)
			due(t, retry, refusedAt+c.want)
		})
	}
}

// Where no quorum answers, nobody may be there to notify: the waiter polls.
func TestRetryPollsWithoutAQuorum(t *testing.T) {
	free, heard, unknown, out := core.Refusal{Status: core.Granted}, heldFor(0, 0), core.Refusal{}, core.Refusal{Status: core.Rejoining}
	for _, c := range []struct {
		said  []core.Refusal
		polls bool
	}{
		{[]core.Refusal{unknown, unknown, unknown}, true},
		{[]core.Refusal{heard, unknown, unknown}, true},
		{[]core.Refusal{heard, out, out}, true},
		{[]core.Refusal{heard, heard, unknown}, false},
		{[]core.Refusal{free, heard, unknown}, false},
		{[]core.Refusal{heard, heard, unknown, unknown}, true},
		{[]core.Refusal{heard, heard, heard, unknown}, false},
	} {
		for random, interval := range map[float64]time.Duration{0: 50, 0.5: 100, 0.75: 125} {
			retry := core.NewRetry(len(c.said))
			retry.Begin()
			retry.Refused(refusedAt, c.said, random)
			want := refusedAt + time.Duration((0.75+random/2)*float64(core.Backstop))
			if c.polls {
				want = refusedAt + interval*time.Millisecond
			}
			due(t, retry, want)
		}
	}
	// A notification hurries a waiter that polls, too.
	retry := core.NewRetry(3)
	retry.Begin()
	retry.Refused(refusedAt, []core.Refusal{unknown, unknown, unknown}, 0.75)
	retry.Notified(0, refusedAt)
	due(t, retry, refusedAt+62500*time.Microsecond)
}

// "first for the first in the queue, a little later for each of the others".
func TestRetrysAreSpreadWhenLeasesEnd(t *testing.T) {
	const end = 100 * time.Millisecond
	step := rule.ReservationTTL / 16
	for ahead, want := range map[int]time.Duration{
		0: end + time.Millisecond,
		1: end + time.Millisecond + step,
		5: end + time.Millisecond + 5*step,
		// The backstop is earlier than the turn of the 35th.
		34: end + time.Millisecond + 34*step,
		35: 2250 * time.Millisecond,
		64: 2250 * time.Millisecond,
		65: 2250 * time.Millisecond,
	} {
		said := []core.Refusal{heldFor(end, ahead), heldFor(end, ahead), heldFor(end, ahead)}
		due(t, refused(said...), refusedAt+want)
	}
}

// Nobody's place makes the moment overflow.
func TestRetryFarBehind(t *testing.T) {
	const many = 1 << 60
	said := []core.Refusal{heldFor(time.Millisecond, many), heldFor(time.Millisecond, many), heldFor(time.Millisecond, many)}
	due(t, refused(said...), earliest)
}

// The place is what most nodes say, see Ahead.
func TestRetryTakesTheMedianPlace(t *testing.T) {
	retry := core.NewRetry(3)
	retry.Begin()
	retry.Refused(refusedAt, []core.Refusal{heldFor(0, 0), heldFor(0, 7), heldFor(0, 1)}, 0.5)
	due(t, retry, refusedAt+time.Second)
	// A node that did not refuse does not count as nobody ahead.
	retry.Begin()
	retry.Refused(refusedAt, []core.Refusal{{Status: core.Granted}, {}, heldFor(0, 1)}, 0.5)
	due(t, retry, refusedAt+time.Second)
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

// minority makes an attempt for the notification of one node, and returns for how long
// the next notification of one node waits.
func minority(retry *core.Retry) time.Duration {
	retry.Notified(0, refusedAt)
	retry.Begin()
	retry.Refused(refusedAt, endless(3, 0), 0)
	return patience(*retry)
}

func patience(retry core.Retry) time.Duration {
	retry.Notified(0, refusedAt)
	return retry.Due() - refusedAt
}

// "A waiter who tries in vain is ever more patient": each attempt for the notifications of
// too few nodes doubles the time that the next such notification waits, up to the claim
// window.
func TestRetryPatience(t *testing.T) {
	retry := refused(endless(3, 0)...)
	want := []time.Duration{62500, 125_000, 250_000, 500_000, 1_000_000, 1_000_000, 1_000_000}
	if got := patience(retry); got != want[0]*time.Microsecond {
		t.Errorf("the first notification of one node waits %v, expected %v", got, want[0]*time.Microsecond)
	}
	for i, us := range want[1:] {
		if got := minority(&retry); got != us*time.Microsecond {
			t.Errorf("after %d attempts in vain, the notification of one node waits %v, expected %v", i+1, got, us*time.Microsecond)
		}
	}
	// An attempt without a notification takes one step back.
	for _, us := range []time.Duration{500_000, 250_000, 125_000, 62500, 62500} {
		retry.Begin()
		retry.Refused(refusedAt, endless(3, 0), 0)
		if got := patience(retry); got != us*time.Microsecond {
			t.Errorf("after an attempt without a notification, it waits %v, expected %v", got, us*time.Microsecond)
		}
	}
	// An attempt for the notifications of a quorum takes all of them.
	minority(&retry)
	minority(&retry)
	retry.Notified(1, refusedAt)
	retry.Notified(2, refusedAt)
	retry.Begin()
	retry.Refused(refusedAt, endless(3, 0), 0)
	if got := patience(retry); got != 62500*time.Microsecond {
		t.Errorf("after an attempt for a quorum's notifications, it waits %v, expected 62.5ms", got)
	}
}

// The first attempt of all was made for nobody's notification.
func TestRetryFirstAttempt(t *testing.T) {
	retry := core.NewRetry(3)
	retry.Begin()
	retry.Begin()
	retry.Refused(refusedAt, endless(3, 0), 0)
	if got := patience(retry); got != 62500*time.Microsecond {
		t.Errorf("the first notification waits %v, expected 62.5ms", got)
	}
}

// Calls during an attempt are for the next one: they cannot interrupt this one,
// and count once it is refused.
func TestRetryCalledDuringAnAttempt(t *testing.T) {
	retry := refused(endless(3, 0)...)
	retry.Begin()
	before := retry.Due()
	retry.Notified(0, refusedAt+time.Second)
	retry.Missed(refusedAt + time.Second)
	due(t, retry, before)

	retry.Begin() // forgets both
	retry.Refused(refusedAt, endless(3, 0), 0)
	due(t, retry, earliest)

	retry.Begin()
	retry.Notified(1, refusedAt-2)
	retry.Notified(2, refusedAt-1)
	retry.Refused(refusedAt, endless(3, 0), 0)
	due(t, retry, refusedAt)
}

// A notification that comes during an attempt waits from the end of the attempt on.
func TestRetryOneCallDuringAnAttempt(t *testing.T) {
	retry := core.NewRetry(3)
	retry.Begin()
	retry.Notified(2, refusedAt-time.Second)
	retry.Refused(refusedAt, endless(3, 0), 0)
	due(t, retry, refusedAt+62500*time.Microsecond)
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
	retry.Refused(refusedAt+40, endless(3, 0), 0)
	due(t, retry, refusedAt+40)

	retry.Begin() // that was it
	retry.Refused(refusedAt, endless(3, 0), 0)
	due(t, retry, earliest)
	// An attempt for a lost notification is not one in vain.
	if got := patience(retry); got != 62500*time.Microsecond {
		t.Errorf("the next notification waits %v, expected 62.5ms", got)
	}
}

// Nothing is left of when the attempt before was to be followed.
func TestRetryRefusedAgain(t *testing.T) {
	retry := refused(heldFor(time.Millisecond, 0), heldFor(time.Millisecond, 0), heldFor(0, 0))
	due(t, retry, refusedAt+2*time.Millisecond)
	retry.Begin()
	retry.Refused(refusedAt, endless(3, 0), 0.5)
	due(t, retry, middle)
}

// Where nobody notifies, a lease that ends before the next look is waited for.
func TestPollDelay(t *testing.T) {
	held := func(remaining time.Duration) core.Refusal {
		return core.Refusal{Status: core.Held, Remaining: remaining}
	}
	for _, c := range []struct {
		said   []core.Refusal
		random float64
		want   time.Duration
	}{
		{nil, 0, 50 * time.Millisecond},
		{nil, 0.5, 100 * time.Millisecond},
		{[]core.Refusal{held(0), held(time.Minute)}, 0, 50 * time.Millisecond},
		{[]core.Refusal{held(20 * time.Millisecond), held(30 * time.Millisecond)}, 0.5, 35 * time.Millisecond},
		{[]core.Refusal{held(50 * time.Millisecond)}, 0, 50 * time.Millisecond},
		{[]core.Refusal{held(50*time.Millisecond - 1)}, 0, 50*time.Millisecond - 1},
		{[]core.Refusal{{Status: core.Granted, Remaining: time.Millisecond}}, 0, 50 * time.Millisecond},
	} {
		if got := core.PollDelay(c.said, c.random); got != c.want {
			t.Errorf("%+v at %v: %v, want %v", c.said, c.random, got, c.want)
		}
	}
}
