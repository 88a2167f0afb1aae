package shell

import (
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// pacing has acquisitions wait for their turn in the client while the nodes are behind: see
// core.Pace.
type pacing struct {
	env Env

	mu      sync.Mutex // guards the rest
	pace    core.Pace
	waiting []paced
	timer   Timer
}

// paced is an acquisition that waits for its turn. Turn begins its attempt, or calls skipped. It is
// called without any mutex held.
type paced interface{ turn() }

// enter begins an attempt, and reports whether it may. If not, its turn is called later. One that
// is urgent begins in any case.
func (p *pacing) enter(a paced, now time.Duration, urgent bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait, ok := p.pace.Due(now); !urgent && (!ok || wait > 0 || len(p.waiting) > 0) {
		p.waiting = append(p.waiting, a)
		p.rest(now)
		return false
	}
	p.pace.Begin(now)
	return true
}

// leave is for one that does not wait for its turn any more.
func (p *pacing) leave(a paced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.DeleteFunc(p.waiting, func(other paced) bool { return other == a })
}

// skipped tells that an attempt whose turn came is not made.
func (p *pacing) skipped() {
	now := p.env.Now()
	p.mu.Lock()
	p.pace.Skip(now)
	p.mu.Unlock()
	p.wake()
}

// silent tells that an attempt has found no quorum in so much time.
func (p *pacing) silent(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.Silent(took)
}

// outcome is what an attempt has come to for those that wait for their turn. The zero outcome is
// that it has not.
type outcome struct {
	over              bool
	now, asked, heard time.Duration // heard: when a quorum had answered, or no answer could come any more
}

// ended tells what an attempt has come to, if it has.
func (p *pacing) ended(o outcome) {
	if !o.over {
		return
	}
	random := p.env.Random()
	p.mu.Lock()
	more := len(p.waiting) > 0
	p.pace.Ended(o.now, o.asked, o.heard-o.asked, more, random)
	p.mu.Unlock()
	if more {
		p.wake()
	}
}

// wake has those begin whose turn it is, in random order: the one that has waited for longest is
// about to give up.
func (p *pacing) wake() {
	for {
		now, random := p.env.Now(), p.env.Random()
		p.mu.Lock()
		wait, ok := p.pace.Due(now)
		if len(p.waiting) == 0 || !ok || wait > 0 {
			p.rest(now)
			p.mu.Unlock()
			return
		}
		i := int(random * float64(len(p.waiting)))
		a := p.waiting[i]
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.pace.Begin(now)
		p.mu.Unlock()
		a.turn()
	}
}

// rest sets the timer, if it is only a matter of time.
func (p *pacing) rest(now time.Duration) {
	wait, ok := p.pace.Due(now)
	switch {
	case len(p.waiting) == 0 || !ok:
	case p.timer == nil:
		p.timer = p.env.AfterFunc(max(wait, 0), p.wake)
	default:
		p.timer.Reset(max(wait, 0))
	}
}

// timeout is for how long the answers to an acquire or a confirm are waited for.
func (p *pacing) timeout() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pace.Timeout()
}
