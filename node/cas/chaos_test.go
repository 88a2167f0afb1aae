package cas

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, n)) }

// belief is for how long a client may have believed that it has the lock, by the wall clock.
type belief struct {
	from, to time.Duration
	token    fence.Token
}

// Clients take a name in turn, on a store with faults. It fails, loses answers, carries writes out
// late and in another order, and tells what has changed twice or not at all. Some clients go
// without a release. Whatever happens, no two believe at once, and tokens grow.
func TestFaultyStore(t *testing.T) {
	const clients, rounds, ttl = 5, 40, 60 * time.Millisecond
	for seed := range uint64(6) {
		exact, queues := seed%2 == 0, seed%3 != 0
		t.Run(fmt.Sprintf("seed %d exact %v queues %v", seed, exact, queues), func(t *testing.T) {
			t.Parallel()
			m := newMemory(wall, exact)
			var all []belief
			var mu sync.Mutex
			var wait sync.WaitGroup
			for c := range clients {
				var n node.Node
				if queues {
					n = join(t, openQueued(m))
				} else {
					n = join(t, openPolled(m))
				}
				t.Cleanup(func() { n.Close() })
				want(t, node.Granted)(n.Do(t.Context(),
					node.Request{Op: node.Acquire, Name: fmt.Sprint("own", c), Holder: "h", TTL: time.Minute}))
				random := seeded(seed<<8 + uint64(c))
				wait.Go(func() {
					for round := range rounds {
						if b, is := lockOnce(t.Context(), n, c, round, ttl, random); is {
							mu.Lock()
							all = append(all, b)
							mu.Unlock()
						}
					}
				})
			}
			m.mu.Lock()
			m.faults = faults{rand: seeded(seed), fails: 3, lost: 5, delayed: 5, deaf: 20, repeats: 20}
			m.mu.Unlock()
			wait.Wait()
			slices.SortFunc(all, func(a, b belief) int { return cmp.Compare(a.from, b.from) })
			for i := range all[1:] {
				if a, b := all[i], all[i+1]; b.from < a.to || b.token <= a.token {
					t.Errorf("%+v, then %+v", a, b)
				}
			}
			if len(all) < rounds {
				t.Errorf("the lock was taken %d times", len(all))
			}
			m.mu.Lock()
			m.faults = faults{}
			m.mu.Unlock()
		})
	}
}

// lockOnce tries until it has the lock, and returns for how long it believes that it has.
func lockOnce(ctx context.Context, n node.Node, client, round int, ttl time.Duration, random *rand.Rand) (b belief,
	is bool) {
	place := node.Place{Waiter: fmt.Sprintf("%032x:%d", client, round+1000), Stamp: wall().Microseconds()}
	for try := range 200 {
		r := node.Request{Op: node.Acquire, Name: "a",
			Holder: node.Holder(fmt.Sprintf("%016x%08x%08x:h", client, round, try)), TTL: ttl, Place: place}
		sent := wall()
		a, err := n.Do(ctx, r)
		end := sent + ttl - rule.Drift(ttl)
		switch {
		case err == nil && a.Status == node.Granted:
			b = belief{from: wall(), to: end, token: a.Register}
			if random.IntN(4) == 0 { // it extends
				sent := wall()
				if a, err := n.Do(ctx, node.Request{Op: node.Extend, Name: "a", Holder: r.Holder, TTL: ttl}); err == nil &&
					a.Status == node.Granted && a.Register <= b.token {
					b.to = sent + ttl - rule.Drift(ttl)
				}
			}
			if random.IntN(5) > 0 {
				b.to = min(b.to, wall())
				n.Do(ctx, node.Request{Op: node.Release, Name: "a", Holder: r.Holder, Place: node.Place{Waiter: place.Waiter}})
			}
			return b, b.from < b.to
		case err != nil:
			n.Do(ctx, node.Request{Op: node.Release, Name: "a", Holder: r.Holder, Place: place})
		}
		time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
	}
	return b, false
}
