package fenlock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Tokens rest on the registers, not on clocks: lockers whose clocks are far apart
// take turns, and each token is larger than the one before. Any two nodes
// may be down each time, so that the registers differ and a confirm is needed.
func TestTokensGrowWhateverTheClocksSay(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		lockers := []*fenlock.Locker{c.locker(), c.locker(), c.locker()}
		fenlock.SetSeen(lockers[1], future)
		fenlock.SetSeen(lockers[2], future+1000)
		var last fence.Token
		for i, turn := range []int{0, 2, 0, 1, 0, 0, 2, 1, 1, 0, 2, 2, 0} {
			c.set(0, 5, allOps, fault{})
			c.nodes[i%5].set(allOps, down)
			c.nodes[(3*i+1)%5].set(allOps, down)
			lock := take(t, lockers[turn], name)
			if lock.Token() <= last || !lock.Token().Valid() {
				t.Errorf("turn %d: token %d after %d", i, lock.Token(), last)
			}
			last = lock.Token()
			wantErr(t, lock.Release(t.Context()))
			synctest.Wait()
		}
		if c.requests(confirm) == 0 {
			t.Error("no token had to be confirmed: the test does not test that")
		}
	})
}

// Nodes that granted different numbers: the largest is confirmed, at a majority.
func TestTokenIsConfirmedWhereRegistersDiffer(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range c.nodes {
			c.raise(i, future+10*fence.Token(i))
		}
		lock := c.held()
		registers := 0
		for i := range c.nodes {
			if c.lease(i, name).Register == lock.Token() {
				registers++
			}
		}
		if registers < 2 {
			t.Errorf("%d registers have the token %d", registers, lock.Token())
		}
		if lock.Token() <= future+10 {
			t.Errorf("the token %d is not above a majority's registers", lock.Token())
		}
		wantErr(t, lock.Extend(t.Context()))
		wantErr(t, lock.Release(t.Context()))
	})
}

// sameStripe returns another name that shares name's register.
func sameStripe() string {
	for i := 0; ; i++ {
		if other := fmt.Sprint("other ", i); node.Stripe(other) == node.Stripe(name) {
			return other
		}
	}
}

// Another name of the same stripe moves the register between the grant and the confirm. The confirm
// is repeated with the larger number, and the lock is still held. It costs a round trip each time,
// and never the token order.
func TestConfirmIsRepeatedWhenAnotherNameMovesTheRegister(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range c.nodes {
			c.raise(i, future+10*fence.Token(i))
		}
		c.set(0, 3, allOps, fault{request: 10 * time.Millisecond})
		other := sameStripe()
		time.AfterFunc(15*time.Millisecond, func() { // the confirms are under way
			for i := range c.nodes {
				c.raiseBy(i, other, future+1000)
			}
		})
		lock := c.held()
		c.wantNow(30 * time.Millisecond)
		if lock.Token() != future+1000 {
			t.Errorf("the token is %d, want %d", lock.Token(), future+1000)
		}
	})
}

// After that the register is past the token, and extensions must go on all the
// same: the lease has been there ever since.
func TestExtendsAfterAnotherNameMovedTheRegister(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		for i := range c.nodes {
			c.raiseBy(i, sameStripe(), future)
		}
		time.Sleep(5 * ttl)
		wantErr(t, lock.Extend(t.Context()))
		wantCause(t, lock.Context(), nil)
	})
}
