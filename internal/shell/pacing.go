package shell

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// pacing has acquisitions wait for their turn in the client while the nodes are behind: see
// core.Pace.
type pacing struct {
	env    Env
	nodes  int
	behind atomic.Bool // core.Pace says so: answers need no mutex otherwise

	mu      sync.Mutex // guards the rest
	pace    core.Pace
	callers line          // that wait
	tries   line          // single attempts
	turned  time.Duration // when one of them began, or the first of them came
	timer   Timer
	heard   core.Set      // the nodes that have answered other requests since the last attempt did
	took    time.Duration // the longest of these answers
}

// paced is an acquisition that waits for its turn. Turn begins its attempt, or calls skipped. It is
// called without any mutex held.
type paced interface{ turn() }

// line are those of one kind, the oldest first.
type line []paced

// take takes one out.
func (l *line) take(i int) paced {
	a := (*l)[i]
	if i == 0 { // that of most that have waited for too long
		(*l)[0] = nil
		*l = (*l)[1:]
	} else {
		*l = slices.Delete(*l, i, i+1)
	}
	return a
}

// enter begins an attempt, and reports whether it may. If not, its turn is called later. One that
// is urgent begins in any case, and so does the first one of its caller unless nodes are behind.
// Waits says that the caller does.
func (p *pacing) enter(a paced, now time.Duration, waits, urgent, first bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	urgent = urgent || first && !p.pace.Behind()
	if wait, ok := p.pace.Due(now); !urgent && (!ok || wait > 0 || p.more()) {
		if !p.more() {
			p.turned = now
		}
		l := p.line(waits)
		*l = append(*l, a)
		p.rest(now)
		return false
	}
	p.pace.Begin(now)
	return true
}

func (p *pacing) line(waits bool) *line {
	if waits {
		return &p.callers
	}
	return &p.tries
}

// more reports whether others wait for their turn.
func (p *pacing) more() bool { return len(p.callers)+len(p.tries) > 0 }

// leave is for one that does not wait for its turn any more.
func (p *pacing) leave(a paced, waits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.line(waits)
	if i := slices.Index(*l, a); i >= 0 {
		l.take(i)
	}
}

// skipped tells that an attempt whose turn came is not made.
func (p *pacing) skipped() {
	now := p.env.Now()
	p.mu.Lock()
	p.pace.Skip(now)
	p.mu.Unlock()
	p.wake()
}

// outcome is what an attempt has come to for those that wait for their turn. The zero outcome is
// that it has not.
type outcome struct {
	what              outcomeKind
	now, asked, heard time.Duration // heard: when a quorum had answered
}

type outcomeKind uint8

const (
	noOutcome  outcomeKind = iota
	answered               // by a quorum
	unanswered             // and nothing is waited for any more
	later                  // by a quorum, after that
)

// ended tells what an attempt has come to, if it has.
func (p *pacing) ended(o outcome) {
	if o.what == noOutcome {
		return
	}
	random := p.env.Random()
	p.mu.Lock()
	more := p.more()
	switch o.what {
	case answered:
		p.pace.Ended(o.now, o.asked, o.heard-o.asked, more, random)
	case unanswered:
		p.pace.Unanswered(o.now, o.asked)
	case later:
		p.pace.Late(o.now, o.asked, o.heard-o.asked, more, random)
	}
	p.heard, p.took = 0, 0
	p.behind.Store(p.pace.Behind())
	p.mu.Unlock()
	if more {
		p.wake()
	}
}

// answer takes that a node has answered a request, whichever, after so much time.
func (p *pacing) answer(node int, sent time.Duration) {
	if !p.behind.Load() {
		return
	}
	now := p.env.Now()
	p.mu.Lock()
	if now-sent > p.pace.NodeTimeout {
		p.pace.Stirs(now)
		p.mu.Unlock()
		return
	}
	p.heard, p.took = p.heard.With(node), max(p.took, now-sent)
	quorum, more := p.heard.Len() >= core.Quorum(p.nodes), p.more()
	if quorum {
		p.pace.Heard(now, p.took, more)
		p.heard, p.took = 0, 0
		p.behind.Store(p.pace.Behind())
	}
	p.mu.Unlock()
	if quorum && more {
		p.wake()
	}
}

// wake has those begin whose turn it is, in random order: the one that has waited for longest is
// about to give up. Half of the turns are of callers that wait, however many single attempts do.
func (p *pacing) wake() {
	for {
		now, random := p.env.Now(), p.env.Random()
		p.mu.Lock()
		if !p.more() || p.wait(now) > 0 {
			p.rest(now)
			p.mu.Unlock()
			return
		}
		l := p.line(random < 0.5 && len(p.callers) > 0 || len(p.tries) == 0)
		i := int(2*random*float64(len(*l))) % len(*l)
		if _, ok := p.pace.Due(now); !ok {
			i = 0
		}
		a := l.take(i)
		p.turned = now
		p.pace.Begin(now)
		p.mu.Unlock()
		a.turn()
	}
}

// wait returns for how long those that wait have to at most. One of them begins in the longest
// pause, whatever is under way: attempts that are urgent may never leave room.
func (p *pacing) wait(now time.Duration) time.Duration {
	left := p.turned + p.pace.Longest() - now
	if wait, ok := p.pace.Due(now); ok {
		left = min(left, wait)
	}
	return left
}

// rest sets the timer.
func (p *pacing) rest(now time.Duration) {
	switch {
	case !p.more():
	case p.timer == nil:
		p.timer = p.env.AfterFunc(max(p.wait(now), 0), p.wake)
	default:
		p.timer.Reset(max(p.wait(now), 0))
	}
}

// timeout is for how long the answers to a confirm are waited for, if the caller waits.
func (p *pacing) timeout(ttl time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pace.Timeout(ttl)
}

// patience is for how long an acquire may be answered.
func (p *pacing) patience(ttl time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pace.Patience(ttl)
}
