package shell

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// endOnce is an owner that hears of the end of a single attempt.
type endOnce struct {
	a          Acquisition
	held, done atomic.Int32
	failed     atomic.Bool
}

func (o *endOnce) Waiting(*Failure)                {}
func (o *endOnce) Held(fence.Token, bool)          { o.held.Add(1) }
func (o *endOnce) Extended(time.Duration, Failure) {}
func (o *endOnce) Ended(Failure, time.Duration)    {}
func (o *endOnce) Freed(Failure)                   {}

func (o *endOnce) Done(f Failure) {
	o.failed.Store(f.Failed())
	o.done.Add(1)
}

// The turn of a single attempt may come at the moment at which it has waited for long enough. It is
// over once, and holds nothing if it has failed.
func TestTurnsAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHiccups(t, 3, false)
		c := h.client(10*time.Second, 500*time.Millisecond)
		fresh := c.group.pacing.pace
		late, held := 0, 0
		for round := range 6 {
			p := &c.group.pacing
			p.mu.Lock()
			now := p.env.Now()
			p.pace.Begin(now)
			p.mu.Unlock()
			time.Sleep(2 * time.Second)
			now = p.env.Now()
			p.ended(outcome{what: answered, now: now, asked: now - 2*time.Second, heard: now}) // the nodes are behind
			p.enter(nil, now, true, true, false)                                               // leaves no room
			all := make([]endOnce, 1000)
			for i := range all {
				c.TryAcquire(&all[i].a, t.Context(), fmt.Sprint(round, " ", i), c.Terms(), &all[i])
			}
			time.Sleep(500*time.Millisecond - 1)
			p.mu.Lock()
			p.pace = fresh
			p.mu.Unlock()
			time.AfterFunc(1, p.wake)
			time.Sleep(10 * time.Second)
			for i := range all {
				o := &all[i]
				if o.done.Load() != 1 || o.held.Load() > 0 && o.failed.Load() {
					t.Errorf("over %d times, and holds %d", o.done.Load(), o.held.Load())
				}
				switch l := o.a.Lock(); {
				case l == nil:
					late++
				case o.held.Load() > 0:
					held++
					l.Release(false)
				}
			}
			time.Sleep(time.Minute)
		}
		if late == 0 || held == 0 {
			t.Errorf("%d were not made, %d were held", late, held)
		}
		h.end(c)
	})
}
