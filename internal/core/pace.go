package core

import "time"

// Pace decides when a client makes its attempts, so that servers which are behind are not asked for
// ever more. They are behind if a quorum's answers take longer than the node timeout. Then so many
// attempts are under way as are answered in about that time: a window. If it is less than one, the
// client pauses between attempts, in proportion to what the last one took.
//
// What waits at the servers is what all clients have under way. So windows settle, where rates
// would swing. An attempt is under way until a quorum has answered, however late, or no answer is
// waited for any more. To repeat it sooner would put the servers further behind.
//
// Nothing here is needed for safety. While answers come in time, it decides nothing. It is a plain
// value. Not safe for concurrent use.
type Pace struct {
	NodeTimeout time.Duration
	TTL         time.Duration // of most locks

	behind bool
	window float64       // how many attempts may be under way, if behind
	since  time.Duration // the window is what was heard of attempts that began since
	next   time.Duration // when the next may begin, with a window of less than one
	lag    time.Duration // what a quorum's answers take lately; it rises at once and falls slowly

	under   int           // attempts that are under way
	usual   float64       // their number lately, on average
	counted time.Duration // up to when
}

const (
	// longestPause is the longest time between two attempts, give or take a quarter. It is less than
	// a TTL, so that all is as before a TTL after the servers are not behind any more.
	longestPause = 6 * time.Second

	firstWindow = 1. / 4 // at least, of a client that has not asked much
	leastWindow = 1. / 64
)

// Due returns how long to wait before the next attempt, 0 or less if it may begin. Ok is false if
// another attempt has to end first.
func (p *Pace) Due(now time.Duration) (wait time.Duration, ok bool) {
	switch {
	case !p.behind:
		return 0, true
	case p.under == 0:
		return p.next - now, true
	}
	return 0, float64(p.under+1) <= p.window
}

// Begin tells that an attempt begins.
func (p *Pace) Begin(now time.Duration) {
	p.count(now)
	p.under++
}

// Skip tells that it is not made.
func (p *Pace) Skip(now time.Duration) {
	p.count(now)
	p.under--
}

func (p *Pace) longest() time.Duration { return min(p.TTL*6/10, longestPause) }

// count has the usual number follow.
func (p *Pace) count(now time.Duration) {
	d := max(now-p.counted, 0)
	p.usual += (float64(p.under) - p.usual) * float64(d) / float64(d+longestPause)
	p.counted = now
}

// Silent tells that an attempt has found no quorum in so much time. It is under way all the same.
func (p *Pace) Silent(took time.Duration) { p.lag = max(p.lag, took) }

// Ended tells that an attempt has ended. It began at asked, and took so long until a quorum had
// answered or no answer could come any more. More says that others wait for their turn. Random is
// uniform in [0, 1).
func (p *Pace) Ended(now, asked, took time.Duration, more bool, random float64) {
	p.count(now)
	if took = max(took, 1); took >= p.lag {
		p.lag = took
	} else {
		p.lag -= (p.lag - took) / 8
	}
	p.learn(now, asked, took, more)
	p.under--
	if p.behind && p.window < 1 {
		pause := min(float64(took)*(1/p.window-1), float64(p.longest()))
		p.next = now + time.Duration((0.75+random/2)*pause)
	}
}

// learn has the window be what an attempt says that took so long. It is halfway to what would have
// taken the node timeout, so that the windows of many clients do not swing together.
func (p *Pace) learn(now, asked, took time.Duration, more bool) {
	switch {
	case !p.behind && took <= p.NodeTimeout:
		return
	case !p.behind:
		p.behind, p.window, p.next = true, max(min(p.usual, float64(p.under)), firstWindow), now
	case asked < p.since:
		return // it was asked for with another window
	}
	p.since = now
	p.window = max(p.window*(1+min(float64(p.NodeTimeout)/float64(took), 2))/2, leastWindow)
	if !more && took <= p.NodeTimeout/2 && p.window > float64(2*p.under) {
		p.behind = false
	}
}

// Timeout returns for how long the answers to an acquire or a confirm are waited for. That is the
// node timeout or, if answers take longer, up to a sixth of the TTL.
func (p *Pace) Timeout() time.Duration {
	if p.lag <= p.NodeTimeout {
		return p.NodeTimeout
	}
	return max(p.NodeTimeout, min(2*p.lag, p.TTL/6))
}
