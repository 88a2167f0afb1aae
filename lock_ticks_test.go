package fenlock_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// tickNode writes down when each name was extended, and can stop to answer.
type tickNode struct {
	mu       sync.Mutex
	mute     bool
	extended map[string]time.Time // the first time
	times    map[time.Time]int    // of all
}

func (n *tickNode) start(r node.Request, call node.Call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.Op == node.Extend {
		n.times[time.Now()]++
		if _, before := n.extended[r.Name]; !before {
			n.extended[r.Name] = time.Now()
		}
	}
	if !n.mute {
		go grant(r, call)
	}
}

// crowd acquires locks one after the other, and returns when each was.
func crowd(t *testing.T, size int, gap time.Duration) (n *tickNode, l *fenlock.Locker, locks []*fenlock.Lock,
	at []time.Time) {
	t.Helper()
	n = &tickNode{extended: map[string]time.Time{}, times: map[time.Time]int{}}
	nodes := []fenlock.Node{ordered{memnode.New("a node"), n.start}}
	l = newLocker(t, fenlock.Config{Nodes: nodes, TTL: 10 * time.Second})
	for i := range size {
		locks, at = append(locks, take(t, l, fmt.Sprint("name ", i))), append(at, time.Now())
		time.Sleep(gap)
	}
	return n, l, locks, at
}

// Locks that are due at nearly the same time are extended together: none late, and
// none earlier than by a hundredth of the TTL.
func TestExtensionsGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, locks, at := crowd(t, 400, time.Millisecond)
		time.Sleep(4 * time.Second)
		n.mu.Lock()
		for i, begun := range at {
			after := n.extended[fmt.Sprint("name ", i)].Sub(begun)
			if due := 10 * time.Second / 3; after > due || after < due-100*time.Millisecond {
				t.Errorf("lock %d was extended after %v", i, after)
			}
		}
		// 400 ms in steps of 100.
		if len(n.times) > 5 {
			t.Errorf("400 locks were extended at %d different times", len(n.times))
		}
		n.mu.Unlock()
		time.Sleep(time.Minute)
		for _, lock := range locks {
			wantErr(t, lock.Release(t.Context())) // or it was lost
		}
		if n := fenlock.Ticking(l); n != 0 {
			t.Errorf("%d locks that have ended are to be woken", n)
		}
	})
}

// However many locks there are, and how far apart, each one ends at the end of its validity. That
// holds where no node answers, and where nothing is extended any more.
func TestAllEndInTime(t *testing.T) {
	for name, test := range map[string]struct {
		size int
		gap  time.Duration
		stop func(l *fenlock.Locker, n *tickNode)
	}{
		"no answers": {200, time.Millisecond, func(_ *fenlock.Locker, n *tickNode) {
			n.mu.Lock()
			n.mute = true
			n.mu.Unlock()
		}},
		"closed": {3, time.Second, func(l *fenlock.Locker, _ *tickNode) { l.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, l, locks, at := crowd(t, test.size, test.gap)
				test.stop(l, n)
				var wg sync.WaitGroup
				for i, lock := range locks {
					wg.Go(func() {
						select {
						case <-lock.Context().Done():
						case <-time.After(time.Hour):
						}
						// 10 s less the drift of a hundredth and 2 ms.
						if after := time.Since(at[i]); after != 9898*time.Millisecond {
							t.Errorf("lock %d ended after %v", i, after)
						}
					})
				}
				wg.Wait()
				if n := fenlock.Ticking(l); n != 0 {
					t.Errorf("%d locks that have ended are to be woken", n)
				}
			})
		})
	}
}
