package fenlock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
)

// A client that has waited before is in the queue with its first request.
func TestOneRequestToEachNodeIsEnoughToStandInQueue(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		l := c.warm(c.queuer())
		before := c.requests(allOps)
		b := c.comes(l)
		time.Sleep(time.Second)
		c.gives(lock)
		c.wantsIn(b, 0, time.Minute)
		synctest.Wait()
		// To join, and to release, which gives the lock.
		if n := c.requests(allOps) - before; n != 2*5 {
			t.Errorf("%d requests to 5 nodes, want 10", n)
		}
		c.gives(b.lock)
		synctest.Wait()
		if n := fenlock.Waiters(l); n != 0 {
			t.Errorf("the locker remembers %d waiters", n)
		}
	})
}

// The first to come is first, also if it had to wait for others of its process before it could ask
// the nodes.
func TestTimeInTheQueueOfTheProcessCounts(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		l := c.queuer()
		first, second := c.comes(l), c.comes(l)
		third := c.comes(c.queuer())
		c.gives(lock)
		c.wantsIn(first, 0, time.Minute)
		time.Sleep(time.Millisecond)
		c.gives(first.lock)
		c.wantsIn(second, 0, time.Minute)
		select {
		case <-third.done:
			t.Error("two holders")
		default:
		}
		c.passes(second.lock, third, 0, 0)
	})
}

// Within a process one caller at a time asks the nodes.
func TestWaitersOfOneProcessQueueInMemory(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		l := c.queuer()
		var all []*arrival
		for range 100 {
			all = append(all, c.comes(l))
		}
		before := c.requests(acquire)
		time.Sleep(time.Minute)
		if n := c.requests(acquire) - before; n > 100 {
			t.Errorf("100 idle waiters of one process sent %d requests to 3 nodes in a minute", n)
		}
		if n := c.inQueue(0); n != 1 {
			t.Errorf("%d of them are in the queue on a node", n)
		}
		for _, a := range all {
			c.passes(lock, a, 0, 0)
			lock = a.lock
		}
		c.gives(lock)
	})
}

func TestQueueInMemoryLetsGoOfThoseWhoGiveUp(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		l := c.queuer()
		ctx, cancel := context.WithCancel(t.Context())
		first := c.comesUntil(ctx, l)
		second := c.comesUntil(ctx, l)
		third := c.comes(l)
		cancel()
		synctest.Wait()
		wantErr(t, first.err, context.Canceled, fenlock.ErrHeld)
		wantErr(t, second.err, context.Canceled, fenlock.ErrHeld)
		c.passes(lock, third, 0, 0)
	})
}

func TestObserverHearsWhyOneWaits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer(label("worker 1"))).lock
		second := c.comes(c.queuer(label("worker 2")))
		var mu sync.Mutex
		var heard []string
		type key struct{}
		ctx := context.WithValue(context.Background(), key{}, "mine")
		l := c.queuer(func(config *fenlock.Config) {
			config.Observer.Waiting = func(ctx context.Context, name string, why error) {
				mu.Lock()
				defer mu.Unlock()
				held := why.(*fenlock.HeldError)
				heard = append(heard, fmt.Sprintf("%s %v: %s, %d ahead", name, ctx.Value(key{}), held.HeldBy, held.Ahead))
			}
		})
		third := c.comesUntil(ctx, l)
		fourth := c.comesUntil(ctx, l)
		time.Sleep(time.Minute + 300*time.Millisecond) // the same again is no news
		c.gives(lock)
		time.Sleep(5 * time.Second)
		mu.Lock()
		got := strings.Join(heard, "\n")
		mu.Unlock()
		want := []string{
			"orders/42 mine: worker 1, 1 ahead",
			"orders/42 mine: worker 1, 2 ahead",
			"orders/42 mine: worker 2, 0 ahead",
		}
		if got != strings.Join(want, "\n") {
			t.Errorf("heard\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		for _, a := range []*arrival{second, third, fourth} {
			<-a.done
			c.gives(a.lock)
		}
	})
}

func TestIdleWaitersCostLittle(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		all := []*arrival{c.comes(c.queuer())}
		const waiters, minutes = 20, 10
		for range waiters {
			all = append(all, c.comes(c.queuer()))
		}
		before := c.requests(acquire) + c.requests(release)
		time.Sleep(minutes * time.Minute)
		sent := float64(c.requests(acquire) + c.requests(release) - before)
		if rate := sent / (waiters * minutes * 60 * 5); rate > 0.5 {
			t.Errorf("a waiter sends %.2f requests per second to each node", rate)
		}
		for _, a := range all {
			<-a.done
			c.gives(a.lock)
		}
	})
}
