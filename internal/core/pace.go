package core

import "time"

// Pace decides when a client makes its attempts, so that servers which are behind are not asked for
// ever more. They are behind if a quorum's answers take longer than the node timeout. Then so many
// attempts are under way as are answered in about that time: a window. If it is less than one, the
// client pauses between attempts, in proportion to what answers take.
//
// What waits at the servers is what all clients have under way. So windows settle, where rates
// would swing. An attempt is under way until a quorum has answered, however late, or no answer is
// waited for any more. To repeat it sooner would put the servers further behind.
//
// Only answers count. A node that is silent may be down, and is not behind for all that is known.
// Then one attempt at a time is repeated, for all that wait, until one is answered. Answers to any
// request end a pause.
//
// Nothing here is needed for safety. While answers come in time, it decides nothing. It is a plain
// value. Not safe for concurrent use.
type Pace struct {
	NodeTimeout time.Duration
	TTL         time.Duration // of most locks

	begun  bool
	behind bool
	silent bool          // a quorum has answered no attempt since one began that it has not answered
	window float64       // how many attempts may be under way, if behind
	since  time.Duration // the window is what was heard of attempts that began since
	next   time.Duration // when the next may begin, with a window of less than one
	random float64       // of the pause until then
	lag    time.Duration // what a quorum's answers take lately, if longer than the node timeout

	answered time.Duration // when a quorum had answered last

	under   int           // attempts that are under way
	usual   float64       // their number lately, on average
	counted time.Duration // up to when
}

const (
	// longestPause is the longest time between two attempts, give or take a quarter. It is less than
	// a TTL, so that all is as before a TTL after the servers are not behind any more.
	longestPause = 6 * time.Second

	firstWindow = 1. / 2 // at least, of a client that was calm: it then pauses for what an attempt took
	leastWindow = 1. / 64

	// patientHalves is for how many halves of the node timeout a late answer is waited for at least.
	patientHalves = 7

	// silentHalves is the same after an attempt that was not answered at all: the nodes may be down.
	silentHalves = 3
)

// Behind reports whether the nodes are behind.
func (p *Pace) Behind() bool { return p.behind }

// Due returns how long to wait before the next attempt, 0 or less if it may begin. Ok is false if
// another attempt has to end first. While the nodes are not behind, that is of repeated ones.
func (p *Pace) Due(now time.Duration) (wait time.Duration, ok bool) {
	switch {
	case !p.behind:
		return 0, !p.silent || p.under == 0
	case p.under == 0:
		return p.next - now, true
	}
	return 0, float64(p.under+1) <= p.window
}

// Begin tells that an attempt begins.
func (p *Pace) Begin(now time.Duration) {
	if !p.begun {
		p.begun, p.answered = true, now
	}
	p.count(now)
	p.under++
}

// Skip tells that it is not made.
func (p *Pace) Skip(now time.Duration) {
	p.count(now)
	p.under--
}

// Longest is the longest pause. One attempt is made in that time, whatever the window.
func (p *Pace) Longest() time.Duration { return min(p.TTL*6/10, longestPause) }

// count has the usual number follow.
func (p *Pace) count(now time.Duration) {
	d := max(now-p.counted, 0)
	p.usual += (float64(p.under) - p.usual) * float64(d) / float64(d+longestPause)
	p.counted = now
}

// Unanswered tells that no quorum has answered an attempt that began at asked, in the time that was
// waited for it. If none has answered anything for long, the nodes are down, for all that is known.
func (p *Pace) Unanswered(now, asked time.Duration) {
	p.count(now)
	p.under--
	p.silent = p.silent || p.answered <= asked
	switch {
	case !p.behind:
	case now-p.answered > 2*p.Longest():
		p.behind = false
	case p.window < 1:
		p.next = max(p.next, now+p.pause(now-asked, p.random))
	}
}

// Ended tells that a quorum has answered an attempt that began at asked, after so much time. More
// says that others wait for their turn. Random is uniform in [0, 1).
func (p *Pace) Ended(now, asked, took time.Duration, more bool, random float64) {
	p.Late(now, asked, took, more, random)
	p.under--
}

// Late is Ended for an attempt of which Unanswered was told.
func (p *Pace) Late(now, asked, took time.Duration, more bool, random float64) {
	p.count(now)
	p.measure(took)
	p.answered, p.silent = now, false
	if !p.behind && took <= p.NodeTimeout {
		return
	}
	first, old := !p.behind, asked < p.since
	p.learn(now, asked, took, more)
	if first || !p.behind || p.window >= 1 {
		return // that the first was late may be over: one more attempt tells
	}
	next := now + p.pause(took, random)
	if old {
		next = min(next, p.next) // it was asked for with another window, and says little
	} else {
		p.random = random
	}
	p.next = next
}

// Heard tells that a quorum has answered other requests, each after so much time or less. They are
// no reason for more attempts at a time, but end a pause and, if no other waits, all pacing.
func (p *Pace) Heard(now, took time.Duration, more bool) {
	if !p.behind {
		return
	}
	p.answered = now
	if took <= p.NodeTimeout {
		p.lag = 0
	}
	if p.window < 1 {
		p.next = min(p.next, now+p.pause(took, p.random))
	}
	if !more && p.under == 0 && took <= p.NodeTimeout/8 {
		p.behind = false
	}
}

// Stirs tells that a node has answered something, however late.
func (p *Pace) Stirs(now time.Duration) { p.answered = now }

// pause is in proportion to what an attempt takes.
func (p *Pace) pause(took time.Duration, random float64) time.Duration {
	pause := min(float64(took)*(1/p.window-1), float64(p.Longest()))
	return time.Duration((0.75 + random/2) * pause)
}

func (p *Pace) measure(took time.Duration) {
	switch {
	case took <= p.NodeTimeout:
		p.lag = 0
	case took >= p.lag:
		p.lag = took
	default:
		p.lag -= (p.lag - took) / 8
	}
}

// learn has the window be what an attempt says that took so long. It is halfway to what would have
// taken the node timeout, so that the windows of many clients do not swing together.
func (p *Pace) learn(now, asked, took time.Duration, more bool) {
	switch {
	case !p.behind:
		p.behind, p.window = true, max(min(p.usual, float64(p.under)), firstWindow)
		p.since, p.next = now, now
		return
	case asked < p.since:
		return // it was asked for with another window
	}
	p.since = now
	unused := p.window > float64(2*p.under)
	if grows := took <= p.NodeTimeout; !grows || !unused {
		p.window = max(p.window*(1+min(float64(p.NodeTimeout)/float64(max(took, 1)), 2))/2, leastWindow)
	} else if !more {
		p.behind = false
	}
}

// Timeout returns for how long the answers to a confirm are waited for, if its caller waits. That
// is the node timeout or, if answers take longer, up to a sixth of the lock's TTL.
func (p *Pace) Timeout(ttl time.Duration) time.Duration {
	return max(p.NodeTimeout, min(2*p.lag, ttl/6))
}

// Patience returns for how long an acquire may be answered late, if its caller waits. That is
// longest if the nodes are known to be behind, and shortest if the attempt before was not answered.
// They may be down then: what they were asked is lost, and they are to be asked again soon. They
// may be both, so that it is no longer than the longest pause, however long the lock's TTL is.
func (p *Pace) Patience(ttl time.Duration) time.Duration {
	patience := patientHalves * p.NodeTimeout / 2
	switch {
	case p.behind:
		patience = max(patience, p.Longest())
	case p.silent:
		patience = silentHalves * p.NodeTimeout / 2
	}
	return min(patience, Patience(ttl))
}
