package etcdnode

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node/clock"
)

// sharedClock is the node's clock. etcd has no clock to read, so the clients make one. Each shows
// its machine's wall clock, and never less than the latest time read from another client's key. So
// clients that meet at a name agree to within the age of what the slower one has read, whatever
// their wall clocks show. A client that finds waiters in the queue comes after them. Leases do not
// end by this clock: it orders waiters, and says how long about a lease has left.
type sharedClock struct {
	ahead atomic.Int64 // of the machine's clock, never less than before
}

// machineClock is the machine's wall clock as it was when the process began, and goes on
// without its steps. It is one for the process.
var machineClock = sync.OnceValue(func() func() time.Duration {
	offset := time.Duration(time.Now().UnixNano()) - clock.Now()
	return func() time.Duration { return offset + clock.Now() }
})

// latest bounds what is believed: the year 2112. A stamp cannot be much larger.
const latest = 1 << 52 * time.Microsecond

func (c *sharedClock) now() time.Duration {
	return machineClock()() + time.Duration(c.ahead.Load())
}

// read takes a time that another client's clock has shown.
func (c *sharedClock) read(shown time.Duration) {
	ahead := int64(shown - machineClock()())
	if shown > latest {
		return
	}
	for {
		old := c.ahead.Load()
		if ahead <= old || c.ahead.CompareAndSwap(old, ahead) {
			return
		}
	}
}
