package shell

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// A caller that gives up after some node timeouts hears that the nodes are down, although its
// attempt was not over. So does the next one.
func TestSilenceIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHiccups(t, 3, false)
		c := h.client(10*time.Second, 500*time.Millisecond)
		h.dead(true, 2)
		for _, name := range []string{"x", "y"} {
			o := take(c, name)
			time.Sleep(600 * time.Millisecond)
			if o.told.Load() == 0 {
				t.Error("a caller was not told why it waits")
			}
			o.a.Cancel()
			if f := <-o.done; f.Last == nil || f.Last.Reason != core.NoQuorum || len(f.Last.Nodes) < 2 {
				t.Errorf("%+v, last %+v", f, f.Last)
			}
			time.Sleep(3 * time.Second)
		}
		h.end(c)
	})
}

// A caller that waits for its turn hears why.
func TestPacedCallersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHiccups(t, 3, false)
		c := h.client(10*time.Second, 500*time.Millisecond)
		for _, p := range h.nodes {
			p.latency.Store(int64(2 * time.Second))
		}
		first, second := take(c, "first"), take(c, "second")
		first.held(t)
		second.held(t)
		third := take(c, "third") // which tells that it was not for a moment
		o, tried := take(c, "x"), try(c, "y", c.Terms())
		began := time.Now()
		if f := <-tried.done; f.Reason != core.NoQuorum || len(f.Nodes) != 3 || time.Since(began) > 500*time.Millisecond {
			t.Errorf("%+v after %v", f, time.Since(began))
		}
		o.a.Cancel()
		if f := <-o.done; f.Last == nil || f.Last.Reason != core.NoQuorum || o.told.Load() != 1 {
			t.Errorf("%+v, last %+v, told %d times", f, f.Last, o.told.Load())
		}
		third.held(t)
		for _, o := range []*tellOwner{first, second, third} {
			o.a.Lock().Release(false)
		}
		time.Sleep(time.Minute)
		h.end(c)
	})
}

// After a stall, free locks of nodes that answer at once are to be had at once.
func TestStallsAreOver(t *testing.T) {
	stalls := []time.Duration{600 * time.Millisecond, time.Second, 2 * time.Second}
	bubbles(t, stalls, func(t *testing.T, stall time.Duration) {
		h := newHiccups(t, 3, false)
		c := h.client(10*time.Second, 500*time.Millisecond)
		for i := range 10 { // the client is calm
			o := take(c, fmt.Sprint(i))
			o.held(t)
			o.a.Lock().Release(false)
			time.Sleep(time.Second)
		}
		for range 2 { // the client pauses from the second on
			for _, p := range h.nodes {
				p.stop(stall)
			}
			o := take(c, "x")
			o.held(t)
			o.a.Lock().Release(false)
		}
		time.Sleep(5 * time.Millisecond) // the release is answered
		for _, o := range []*tellOwner{take(c, "y"), try(c, "z", c.Terms())} {
			if took := o.held(t); took > 500*time.Millisecond {
				t.Errorf("a free lock took %v", took)
			}
			o.a.Lock().Release(false)
		}
		time.Sleep(time.Second)
		h.end(c)
	})
}

// After an outage in which all messages were lost, a waiter asks again soon.
func TestOutagesAreOver(t *testing.T) {
	outages := []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, time.Minute}
	bubbles(t, outages, func(t *testing.T, down time.Duration) {
		h := newHiccups(t, 3, false)
		c := h.client(10*time.Second, 500*time.Millisecond)
		h.dead(true, 3)
		o := take(c, "x")
		time.Sleep(down)
		h.dead(false, 3)
		if took := o.held(t); took > time.Second {
			t.Errorf("%v after the outage", took)
		}
		o.a.Lock().Release(false)
		time.Sleep(time.Minute)
		h.end(c)
	})
}

// In an outage the waiters of a client ask one after the other, each first once at once. When it is
// over, all of them do.
func TestOneWaiterAsksForAllInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 20
		h := newHiccups(t, 3, false)
		c := h.client(10*time.Second, 500*time.Millisecond)
		h.dead(true, 3)
		var all []*tellOwner
		for i := range waiters {
			all = append(all, take(c, fmt.Sprint(i)))
		}
		time.Sleep(20 * time.Second)
		asked := h.nodes[0].asked.Load()
		h.dead(false, 3)
		for _, o := range all {
			if took := o.held(t); took > time.Second {
				t.Errorf("%v after the outage", took)
			}
			o.a.Lock().Release(false)
		}
		// An acquire and a release each, in at least three quarters of a second, and what strays.
		if most := int64(2*waiters + 2*20*4/3 + waiters); asked > most {
			t.Errorf("%d requests to each node in the outage, at most %d are of use", asked, most)
		}
		t.Log(asked, "requests to each node")
		time.Sleep(time.Minute)
		h.end(c)
	})
}

// A waiter that is notified while its attempt is silent asks again when its time is up.
func TestNotificationsEndSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHiccups(t, 3, true)
		holder, c := h.client(10*time.Second, 500*time.Millisecond), h.client(10*time.Second, 500*time.Millisecond)
		first := take(holder, "x")
		first.held(t)
		h.dead(true, 2)
		o := take(c, "x")
		time.Sleep(3200 * time.Millisecond)
		h.dead(false, 2)
		time.Sleep(10 * time.Millisecond)
		first.a.Lock().Release(false)
		if took := o.held(t); took > time.Second {
			t.Errorf("the only waiter got it after %v", took)
		}
		o.a.Lock().Release(false)
		time.Sleep(time.Second)
		h.end(holder, c)
	})
}

// In an outage, a single attempt takes no longer than two node timeouts, whatever was measured. So
// does Close.
func TestTriesAndCloseAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHiccups(t, 3, false)
		c := h.client(time.Minute, time.Second)
		h.dead(true, 2)
		for i, ttl := range []time.Duration{time.Minute, time.Minute, 4 * time.Second} {
			began := time.Now()
			<-try(c, "x", Terms{TTL: ttl}).done
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("attempt %d took %v", i, took)
			}
			time.Sleep(20 * time.Second)
		}
		o := take(c, "z")
		time.Sleep(1500 * time.Millisecond)
		began, idle := time.Now(), make(chan struct{})
		c.Close(func() { close(idle) })
		<-idle
		<-o.done // although late answers are waited for
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Close took %v", took)
		}
		time.Sleep(time.Minute)
	})
}

// A caller that waits is not kept from its attempt by others that do not.
func TestTriesStarveNoCaller(t *testing.T) {
	bubbles(t, []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, 800 * time.Millisecond},
		func(t *testing.T, latency time.Duration) {
			h := newHiccups(t, 3, false)
			c := h.client(10*time.Second, 500*time.Millisecond)
			for _, p := range h.nodes {
				p.latency.Store(int64(latency))
			}
			stop := make(chan struct{})
			var under sync.WaitGroup
			under.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(250 * time.Millisecond):
						o := try(c, fmt.Sprint("try ", i), c.Terms())
						under.Go(func() {
							if f := <-o.done; !f.Failed() {
								o.a.Lock().Release(false)
							}
						})
					}
				}
			})
			time.Sleep(20 * time.Second)
			o := take(c, "x")
			gaveUp := time.AfterFunc(time.Minute, o.a.Cancel)
			o.held(t)
			gaveUp.Stop()
			o.a.Lock().Release(false)
			close(stop)
			under.Wait()
			time.Sleep(time.Minute)
			h.end(c)
		})
}

// Nor is it by a thousand of them that wait for their turn at each moment.
func TestFloodsOfTriesStarveNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		p := pacing{env: &bubbleEnv{time.Now(), -time.Hour}, nodes: 3,
			pace: core.Pace{NodeTimeout: timeout, TTL: 10 * time.Second}}
		end := func(took time.Duration) {
			asked := p.env.Now()
			time.Sleep(took)
			p.ended(outcome{what: answered, now: p.env.Now(), asked: asked, heard: p.env.Now()})
		}
		p.enter(nil, p.env.Now(), true, true, false)
		end(2 * timeout) // the nodes are behind
		p.enter(nil, p.env.Now(), true, true, false)
		tries, caller := make(turns, 64), make(turns, 1)
		for range 1000 {
			p.enter(tries, p.env.Now(), false, false, false)
		}
		p.enter(caller, p.env.Now(), true, false, false)
		for range 64 {
			end(timeout)
			select {
			case <-tries:
			case <-caller:
				return
			}
		}
		t.Error("none of 64 turns was the caller's")
	})
}

// One that waits for its turn begins in the longest pause, although attempts that are urgent leave
// no room.
func TestUrgentAttemptsStarveNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacing{env: &bubbleEnv{time.Now(), -time.Hour}, nodes: 3,
			pace: core.Pace{NodeTimeout: time.Second, TTL: 10 * time.Second}}
		now := p.env.Now()
		p.enter(nil, now, true, false, false)
		time.Sleep(2 * time.Second)
		p.ended(outcome{what: answered, now: p.env.Now(), asked: now, heard: p.env.Now()})
		p.enter(nil, p.env.Now(), true, true, false) // and never ends
		began, turns := time.Now(), make(turns, 2)
		for range 2 {
			if p.enter(turns, p.env.Now(), true, false, false) {
				t.Fatal("it need not wait")
			}
		}
		for i := range 2 {
			<-turns
			if took, want := time.Since(began), time.Duration(i+1)*6*time.Second; took != want {
				t.Errorf("turn %d after %v, want %v", i, took, want)
			}
		}
	})
}

type turns chan struct{}

func (t turns) turn() { t <- struct{}{} }

// Callers that wait for their turn leave at once, with nothing left.
func TestPacedCallersLeave(t *testing.T) {
	bubbles(t, []bool{false, true}, func(t *testing.T, closes bool) {
		h := newHiccups(t, 3, true)
		c := h.client(10*time.Second, 500*time.Millisecond)
		for _, p := range h.nodes {
			p.latency.Store(int64(2 * time.Second))
		}
		first := take(c, "first")
		first.held(t)
		var all []*tellOwner
		for i := range 500 {
			all = append(all, take(c, fmt.Sprint(i%100)))
		}
		time.Sleep(time.Second)
		began, idle := time.Now(), make(chan struct{})
		if closes {
			c.Close(func() { close(idle) })
		} else {
			close(idle)
			for _, o := range all {
				o.a.Cancel()
			}
		}
		for _, o := range all {
			<-o.done
		}
		<-idle
		if took := time.Since(began); took > time.Second {
			t.Errorf("they left after %v", took)
		}
		first.a.Lock().Release(false)
		time.Sleep(6 * time.Minute)
		if n := c.Counts(); n != (Counts{}) || c.group.pacing.more() {
			t.Errorf("left: %+v", n)
		}
		if !closes {
			h.end(c)
		}
	})
}

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
