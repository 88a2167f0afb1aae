package core

import (
	"slices"
	"time"

	"github.com/fenlock/fenlock/node/rule"
)

// The figures of waiting, beside those in package rule. They are the same for all clients and
// nodes, so that no client passes another over for being slow by its own measure.
const (
	// Backstop is the longest that a waiter stays silent, give or take a
	// quarter: whatever messages were lost, it looks again by then.
	Backstop = 3 * time.Second

	// WatchedBackstop is the same for waiters whose node tells them that those before them have
	// died. It is shorter than rule.QueueExpiry: each of them has the queue remembered, also where
	// those before it are stopped.
	WatchedBackstop = 10 * time.Second

	// PollInterval is the time between the first attempts of a waiter that polls, more or less by a
	// half at random. It polls while too few nodes answer, and where they do not notify it.
	PollInterval = 100 * time.Millisecond

	// pollShare is the part of its wait so far that a waiter pauses after that, give or take a half.
	// So a lone waiter finds a free lock late by less than a fifth of its wait. With a delay that
	// doubles it could be late by more than its whole wait.
	pollShare = 8

	// longestPoll bounds that pause. A waiter is never late by a second, as a user would notice. And
	// the longer the pause is, the more often those that have just come get the lock first.
	longestPoll = 500 * time.Millisecond
)

// Retry is the part of the algorithm that decides when a waiter tries again. A
// waiter that is refused is put into the name's queue on every node. A node whose
// lease ends by a release notifies the first in the queue, and reserves the name for
// it. Nothing here is needed for safety: a waiter that tries too early is refused,
// one that tries too late has waited in vain.
//
// Tell it of every attempt with Begin and Refused, and of every notification; then try
// at Due, or when that changes. It is a plain value. Not safe for concurrent use.
type Retry struct {
	nodes    int
	notified Set // since the attempt began
	missed   bool
	// vain grows with each attempt that was made for the notifications of fewer
	// nodes than a quorum.
	vain    int
	due     time.Duration
	refused bool          // an attempt has ended, none is under way
	polls   bool          // after the latest attempt,
	since   time.Duration // and after each since then
}

// NewRetry returns that of a waiter on so many nodes, before its first attempt.
func NewRetry(nodes int) Retry { return Retry{nodes: nodes} }

// Refusal is what a waiter knows about one node after an attempt.
type Refusal struct {
	Status Status
	// Remaining is how long the lease that refused will last, 0 if that is not
	// known or it has no end. Ahead is how many waiters are before this one, negative if the node
	// keeps no queue.
	Remaining time.Duration
	Ahead     int
	Watching  bool // the node tells also of the end of a process, see node.Answer
}

// Begin tells that an attempt starts. The notifications up to now are what it is for.
func (t *Retry) Begin() {
	switch n := t.notified.Len(); {
	case n >= Quorum(t.nodes):
		t.vain = 0
	case n > 0:
		t.vain = min(t.vain+1, mostVain)
	default:
		t.vain = max(t.vain-1, 0)
	}
	t.notified, t.missed, t.refused = 0, false, false
}

// Notified tells that a node has reserved the name for this waiter.
func (t *Retry) Notified(node int, now time.Duration) {
	t.notified = t.notified.With(node)
	t.hurry(now)
}

// Missed tells that a notification may have been lost: a connection was.
func (t *Retry) Missed(now time.Duration) {
	t.missed = true
	t.hurry(now)
}

// Invited reports whether a quorum has notified the waiter since its latest attempt began.
func (t *Retry) Invited() bool { return t.notified.Len() >= Quorum(t.nodes) }

// News reports whether a notification has come, or may have been lost, since the attempt began.
func (t *Retry) News() bool { return t.notified != 0 || t.missed }

func (t *Retry) hurry(now time.Duration) {
	switch {
	case !t.refused:
	case t.missed:
		t.due = min(t.due, now)
	case t.notified != 0:
		t.due = min(t.due, now+t.patience())
	}
}

// mostVain is where patience reaches the length of a reservation.
const mostVain = 4

// patience is how long the notifications so far can wait. A quorum of them cannot: the
// lock is to be had. Fewer may be the first of more. Or they are all that there
// will be: nodes that disagree about who is next, which the one with the
// earliest stamp settles by trying; or a node that lost the lease of a living
// holder. A waiter who tries in vain is ever more patient then.
func (t *Retry) patience() time.Duration {
	if t.Invited() {
		return 0
	}
	return rule.ReservationTTL >> (mostVain - t.vain)
}

// Refused tells that the attempt has failed, with what each node said. Polls says that the nodes
// are unlikely to notify the waiter. Random is uniform in [0, 1): waiters must not stay in step.
func (t *Retry) Refused(now time.Duration, said []Refusal, polls bool, random float64) {
	t.refused = true
	defer t.hurry(now)
	answered, watching := 0, 0
	ends := make([]time.Duration, 0, MaxNodes)
	ahead := make([]int, 0, MaxNodes)
	for _, r := range said {
		switch r.Status {
		case Granted:
			answered++
			ends = append(ends, 0)
		case Held:
			answered++
			if r.Ahead >= 0 {
				ahead = append(ahead, r.Ahead)
			}
			if r.Watching {
				watching++
			}
			if r.Remaining > 0 {
				ends = append(ends, min(r.Remaining, 2*Backstop)) // no need to know more
			}
		}
	}
	place, backstop, hung := Ahead(ahead), Backstop, Backstop
	if watching >= Quorum(t.nodes) {
		backstop, hung = WatchedBackstop, WatchedBackstop
		if place > 0 {
			if len(ends) > 0 {
				hung = Backstop // it is reserved, perhaps for one that is stopped: the node passes over one at a time
			}
			ends = nil // a reservation that has an end is not for this one
		}
	}
	before := t.due
	t.due = now + time.Duration((0.75+random/2)*float64(backstop))
	if place > 0 {
		// A waiter before this one may be hung. That shows only when a waiter asks.
		t.due = min(t.due, now+time.Duration(min(place, int(hung/rule.ReservationTTL)))*rule.ReservationTTL)
	}
	polled, took := t.polls, now-before // it began when it was due
	unheard := answered < Quorum(t.nodes)
	t.polls = polls || unheard
	if !polled {
		t.since, took = now, 0
	}
	switch {
	case unheard, polls && len(ahead) == 0:
		ends = nil // the pause ends with the lease, but not for all waiters at once
		t.due = min(t.due, now+PollDelay(said, now-t.since, took, random))
	case polls:
		// The first few suffice to find the lock free. The further back the others are, the less often
		// they ask, however long they have waited: a thousand of them some 600 times a second.
		further := PollInterval * time.Duration(min(place, rule.MaxQueue)) / pollShare
		t.due = min(t.due, now+poll(said, min(max(PollInterval, further), Backstop), random))
	}
	if q := Quorum(t.nodes); len(ends) >= q {
		// The moment at which a majority may be free. The first in the queue asks first, and each
		// other waiter a little later, so that they do not all ask at once.
		slices.Sort(ends)
		behind := time.Duration(min(place, 64)) * (rule.ReservationTTL / 16)
		t.due = min(t.due, now+ends[q-1]+time.Millisecond+behind)
	}
}

// PollDelay returns how long to wait where no quorum answers, or no node tells a place in a queue.
// The waiter has polled for so long. What the latest attempt took is a part of the pause. It may be
// negative: something was given to the waiter before its attempt was due. Random is uniform in
// [0, 1).
func PollDelay(said []Refusal, polled, took time.Duration, random float64) time.Duration {
	return poll(said, max(PollInterval, min(polled/pollShare, longestPoll)-max(took, 0)), random)
}

// poll is an interval, more or less by a half at random. So acquirers that met do not meet again,
// as the Redlock page describes ("Retry on failure").
func poll(said []Refusal, interval time.Duration, random float64) time.Duration {
	d := time.Duration((0.5 + random) * float64(interval))
	var last time.Duration
	for _, r := range said {
		if r.Status == Held {
			last = max(last, r.Remaining)
		}
	}
	if last > 0 && last < d {
		// It may end sooner; some of the randomness stays.
		d = last + time.Duration(random*float64(interval/10))
	}
	return d
}

// MeetAttempts is how many attempts a client that does not wait makes at most. It makes them while
// clients that came at the same moment have some nodes each and none a quorum.
const MeetAttempts = 6

// MeetDelay returns how long to wait before the next of them. It is a random time of one to three
// times what a quorum took to answer the last attempt, twice as long after each one. So clients
// that met come one after the other, however far the nodes are. A node that hangs does not count.
// It is no longer than Backstop, give or take a half: the caller does not wait. Random is uniform
// in [0, 1).
func MeetDelay(attempts int, took time.Duration, random float64) time.Duration {
	return time.Duration((0.5 + random) * float64(min(max(took, time.Millisecond)<<attempts, Backstop)))
}

// Due returns when to try again. It means something between Refused and Begin.
func (t *Retry) Due() time.Duration { return t.due }

// Ahead returns what the nodes' counts of waiters ahead come to: the median,
// the larger one of two. It sorts its argument.
func Ahead(counts []int) int {
	if len(counts) == 0 {
		return 0
	}
	slices.Sort(counts)
	return counts[len(counts)/2]
}
