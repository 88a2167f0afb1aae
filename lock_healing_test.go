package fenlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// moves has other names of the same stripe taken all the time, until stop is called: each
// moves the register of all nodes.
func (c *cluster) moves() (stop func()) {
	var others []string
	for i := 0; len(others) < 3; i++ {
		if other := fmt.Sprint("other-", i); node.Stripe(other) == node.Stripe(name) {
			others = append(others, other)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			for _, f := range c.nodes {
				r := node.Request{Op: node.Acquire, Name: others[i%3], Holder: node.Holder(fmt.Sprint("h", i)), TTL: time.Second}
				f.view.Do(ctx, r)
				r.Op = node.Release
				f.view.Do(ctx, r)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-done }
}

// A node that comes back counts again, however far the nodes are. The round that raises the mark
// takes two round trips, and is not cut short. Another one may go after that.
func TestFarNodesHeal(t *testing.T) {
	const ms = time.Millisecond
	ways := func(near, far time.Duration, step time.Duration) (all []time.Duration) {
		for i := range 9 {
			all = append(all, near+time.Duration(i)*step)
			if i > 4 {
				all[i] += far - near
			}
		}
		return all
	}
	bubbles(t, 9, map[string][]time.Duration{ // ways to the nodes, and back
		"near":                   ways(ms, ms, 0),
		"far":                    ways(210*ms, 210*ms, 0),
		"very far":               ways(500*ms, 500*ms, 0),
		"those that go are far":  ways(ms, 500*ms, 0),
		"each a little further":  ways(ms, ms, 3*ms),
		"each far from the next": ways(ms, ms, 40*ms),
	}, func(t *testing.T, c *cluster, ways []time.Duration) {
		for i, way := range ways {
			c.nodes[i].set(allOps, fault{request: way, reply: way})
		}
		lock := take(t, c.locker(func(c *fenlock.Config) { c.NodeTimeout = ttl / 4 }), name)
		stop := c.moves()
		time.Sleep(ttl)
		for _, f := range c.nodes[5:] {
			f.view.Crash()
			f.view.Restart()
		}
		time.Sleep(ttl + drift)
		registers, err := c.nodes[0].view.Registers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range c.nodes[5:] {
			f.view.Admit(map[int]fence.Token(registers.Tokens))
		}
		time.Sleep(ttl/2 + 3*2*ways[8])
		asked := len(c.nodes[4].times(extend))
		for _, f := range c.nodes[:4] {
			f.set(allOps, down)
		}
		time.Sleep(3 * ttl)
		if lock.Remaining() == 0 {
			t.Error(context.Cause(lock.Context()))
		}
		// A round every third of a TTL, and one to raise the mark: it does not go on.
		if n := len(c.nodes[4].times(extend)) - asked; n > 15 {
			t.Errorf("it was asked %d times in three TTLs", n)
		}
		stop()
		lock.Release(t.Context())
	})
}

// An acquire that a node executes when it goes on, long after it was given up, must not keep the
// holder from this node. Its release is repeated.
func TestLateAcquireIsReleasedAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), name)
		synctest.Wait() // it has all nodes
		other := c.locker()
		stopped := c.nodes[0]
		stopped.set(allOps, down)
		stopped.set(acquire, fault{request: ttl * 6 / 5})
		_, err := other.TryAcquire(t.Context(), name)
		wantErr(t, err, fenlock.ErrHeld)
		time.Sleep(ttl * 6 / 5) // the holder's lease there has ended
		stopped.heal()
		time.Sleep(ttl / 2)
		c.nodes[1].set(allOps, down)
		time.Sleep(2 * ttl)
		if lock.Remaining() == 0 {
			t.Error(context.Cause(lock.Context()))
		}
		asked := len(stopped.times(release))
		time.Sleep(ttl)
		if n := len(stopped.times(release)); n > asked {
			t.Errorf("the release was repeated %d times when there was nothing to release any more", n-asked)
		}
		lock.Release(t.Context())
	})
}

// What is not answered is repeated with one request at a time, and not for ever.
func TestReleasesAreRepeatedSparingly(t *testing.T) {
	bubbles(t, 3, map[string]bool{"it stays down": true, "it comes back": false},
		func(t *testing.T, c *cluster, forever bool) {
			l := c.locker()
			stopped := c.nodes[0]
			var locks []*fenlock.Lock
			for i := range 20 {
				locks = append(locks, take(t, l, fmt.Sprint(i)))
			}
			stopped.set(allOps, down)
			for _, lock := range locks {
				wantErr(t, lock.Release(t.Context()))
			}
			time.Sleep(time.Millisecond) // a majority has answered, and now all have been asked
			before := len(stopped.times(release))
			time.Sleep(ttl)
			if n := len(stopped.times(release)) - before; n < 5 || n > 7 {
				t.Errorf("%d releases in a TTL", n)
			}
			if forever {
				time.Sleep(30 * ttl)
			} else {
				stopped.heal()
				before = len(stopped.times(release))
				time.Sleep(ttl)
				// All that could make these leases was answered, so that they do not come again.
				// One or two may be asked twice, where two things happen at the same moment.
				if n := len(stopped.times(release)) - before; n < len(locks) || n > len(locks)+5 {
					t.Errorf("%d releases when it was back", n)
				}
			}
			before = len(stopped.times(release))
			time.Sleep(ttl)
			if n := len(stopped.times(release)) - before; n > 0 {
				t.Errorf("%d releases at last", n)
			}
		})
}

// A number that fenlock cannot have made is not believed. What one node was made to say by hand
// does not use up the numbers of all.
func TestHugeNumbersAreNotBelieved(t *testing.T) {
	for _, huge := range []fence.Token{node.MaxRegister + 1, fence.MaxToken - 1, fence.MaxToken} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.locker()
			lock := take(t, l, name)
			c.nodes[0].view.Crash() // its lease is made again, with this register as its origin
			c.nodes[0].view.Restart()
			c.nodes[0].view.Admit(map[int]fence.Token{node.Stripe(name): huge})
			time.Sleep(2 * ttl)
			wantErr(t, lock.Extend(t.Context()))
			wantErr(t, lock.Release(t.Context()))
			time.Sleep(time.Second) // a majority has answered, and now all have been asked
			again := take(t, l, name)
			if again.Token() > node.MaxRegister {
				t.Errorf("token %d", again.Token())
			}
			for _, f := range c.nodes[1:] {
				registers, err := f.view.Registers(t.Context())
				if err != nil || registers.Tokens[node.Stripe(name)] > node.MaxRegister {
					t.Errorf("%v, %v", registers.Tokens, err)
				}
			}
			wantErr(t, again.Release(t.Context()))
			c.nodes[1].set(allOps, down)
			other := "other" // of the same stripe, and never leased
			for i := 0; node.Stripe(other) != node.Stripe(name); i++ {
				other = fmt.Sprint("other-", i)
			}
			_, err := c.locker().TryAcquire(t.Context(), other)
			wantErr(t, err, fenlock.ErrNoQuorum)
			if err == nil || !strings.Contains(err.Error(), "changed by hand") {
				t.Error(err)
			}
		})
	}
}
