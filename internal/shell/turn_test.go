package shell

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

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
			attempts, owners := make([]Acquisition, 1000), make([]*onceOwner, 1000)            // which hear that it is over once
			for i := range attempts {
				owners[i] = newOnceOwner(t)
				c.TryAcquire(&attempts[i], t.Context(), fmt.Sprint(round, " ", i), c.Terms(), owners[i])
			}
			time.Sleep(500*time.Millisecond - 1)
			p.mu.Lock()
			p.pace = fresh
			p.mu.Unlock()
			time.AfterFunc(1, p.wake)
			time.Sleep(10 * time.Second)
			for i, o := range owners {
				if o.done.Load() != 1 {
					t.Errorf("over %d times", o.done.Load())
				}
				switch l := attempts[i].Lock(); {
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
