package fenlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// A number that fenlock cannot have made is not believed: what one node was made to say
// by hand does not use up the numbers of all.
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
			_, err := c.locker().TryAcquire(t.Context(), name)
			wantErr(t, err, fenlock.ErrNoQuorum)
			if err == nil || !strings.Contains(err.Error(), "changed by hand") {
				t.Error(err)
			}
		})
	}
}
