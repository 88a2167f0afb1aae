package shell

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// Whatever happens to nodes and callers, each attempt ends once for those that wait for their turn.
// When the nodes are well again, all callers get their locks soon.
func TestPacingForgetsNoAttempt(t *testing.T) {
	var seeds []uint64
	for seed := range uint64(30) {
		seeds = append(seeds, seed)
	}
	bubbles(t, seeds, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		h := newHiccups(t, 3, seed%2 == 0)
		c := h.client(10*time.Second, 500*time.Millisecond)
		well := func() {
			h.dead(false, 3)
			for _, p := range h.nodes {
				p.latency.Store(int64(time.Millisecond))
			}
		}
		var all []*tellOwner
		for range 300 {
			switch random.IntN(12) {
			case 0:
				h.dead(true, 1+random.IntN(3))
			case 1, 2:
				well()
			case 3:
				h.nodes[random.IntN(3)].latency.Store(random.Int64N(int64(3 * time.Second)))
			case 4:
				h.nodes[random.IntN(3)].stop(time.Duration(random.Int64N(int64(3 * time.Second))))
			case 5, 6, 7:
				all = append(all, take(c, fmt.Sprint(random.IntN(20))))
			case 8, 9:
				all = append(all, try(c, fmt.Sprint(random.IntN(20)), c.Terms()))
			case 10:
				if len(all) > 0 {
					all[random.IntN(len(all))].a.Cancel()
				}
			}
			all = slices.DeleteFunc(all, func(o *tellOwner) bool {
				select {
				case f := <-o.done:
					if !f.Failed() {
						time.AfterFunc(time.Duration(random.Int64N(int64(time.Second))), func() { o.a.Lock().Release(false) })
					}
					return true
				default:
					return false
				}
			})
			time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		}
		well()
		began := time.Now()
		var wait sync.WaitGroup
		for _, o := range all { // a later one may hold what an earlier one waits for
			gaveUp := time.AfterFunc(time.Minute, o.a.Cancel)
			wait.Go(func() {
				if f := <-o.done; !f.Failed() {
					o.a.Lock().Release(false)
				}
				gaveUp.Stop()
			})
		}
		wait.Wait()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%d callers were served after %v", len(all), took)
		}
		time.Sleep(time.Minute)
		p := &c.group.pacing
		for range 20 { // they are not behind any more
			o := take(c, "x")
			o.held(t)
			o.a.Lock().Release(false)
			time.Sleep(time.Minute)
		}
		p.mu.Lock()
		pace, now := p.pace, p.env.Now()
		p.mu.Unlock()
		pace.Begin(now)
		pace.Unanswered(now, now) // in silence, one attempt is under way at a time
		if _, ok := pace.Due(now); !ok || p.more() || pace.Behind() {
			t.Errorf("an attempt is under way: %+v", pace)
		}
		h.end(c)
	})
}
