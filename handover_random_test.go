package fenlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// passing is one tenure: from when to when a process believed that it had the lock.
type passing struct {
	token    fence.Token
	from, to time.Duration
}

// relay is processes that hand one lock round, over nodes that fail.
type relay struct {
	*cluster
	mu    sync.Mutex // guards the rest
	rng   *rand.Rand
	texts []string // each for one
	all   []passing
	over  bool
}

func (r *relay) within(d time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.rng.Int64N(int64(d)))
}

func (r *relay) oneIn(n int) bool { return r.within(time.Duration(n)) == 0 }

func (r *relay) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// claim returns a text that no other process gets.
func (r *relay) claim() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.texts) == 0 {
		return ""
	}
	text := r.texts[0]
	r.texts = r.texts[1:]
	return text
}

// run is what a process does until the relay is over.
func (r *relay) run(l *fenlock.Locker) {
	for !r.ended() {
		if k := r.get(l); k != nil {
			r.work(k)
			r.pass(k)
		}
		time.Sleep(r.within(time.Second))
	}
}

// get adopts a lock that another process has exported, soon or too late, or acquires it.
func (r *relay) get(l *fenlock.Locker) *fenlock.Lock {
	text := r.claim()
	if text == "" {
		ctx, cancel := context.WithTimeout(context.Background(), r.within(5*time.Second))
		defer cancel()
		k, _ := l.Acquire(ctx, name)
		return k
	}
	if r.oneIn(3) {
		time.Sleep(r.within(15 * time.Second))
	}
	for !r.ended() {
		ctx, cancel := context.WithTimeout(context.Background(), r.within(1200*time.Millisecond))
		k, err := l.Adopt(ctx, text)
		cancel()
		if err == nil || errors.Is(err, fenlock.ErrLost) {
			return k
		}
		wantNot(r.t, err, fenlock.ErrInvalid)
		time.Sleep(r.within(200 * time.Millisecond))
	}
	return nil
}

// work holds the lock for a time, and notes for how long it was held.
func (r *relay) work(k *fenlock.Lock) {
	a := passing{token: k.Token(), from: r.now()}
	if a.to = a.from; k.Remaining() == 0 {
		return
	}
	for end := a.from + r.within(25*time.Second); a.to < end && !r.ended(); {
		now := r.now()
		if k.Remaining() == 0 {
			break
		}
		a.to = now
		time.Sleep(50 * time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, a)
}

// pass exports the lock, which may be extended or released at the same time, or releases it.
func (r *relay) pass(k *fenlock.Lock) {
	if r.oneIn(3) {
		k.Release(context.Background())
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.within(2*time.Second))
	defer cancel()
	var beside sync.WaitGroup
	if r.oneIn(3) {
		releases, after := r.oneIn(2), r.within(300*time.Millisecond)
		beside.Go(func() {
			time.Sleep(after)
			if k.Extend(context.Background()); releases {
				k.Release(context.Background())
			}
		})
	}
	text, err := k.Export(ctx)
	beside.Wait()
	if err != nil {
		r.work(k)
		k.Release(context.Background())
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, text)
}

// fail has one node after the other fail, in some way.
func (r *relay) fail() {
	ops := []string{acquire, confirm, extend, release, allOps}
	for range 60 {
		time.Sleep(r.within(6 * time.Second))
		f := r.nodes[r.within(time.Duration(len(r.nodes)))]
		hows := []fault{{hang: true}, {request: r.within(2 * ttl)},
			{request: r.within(nodeTimeout), reply: r.within(nodeTimeout)}, down, {lost: true}}
		if r.oneIn(3) {
			f.heal()
		} else {
			f.set(ops[r.within(time.Duration(len(ops)))], hows[r.within(time.Duration(len(hows)))])
		}
	}
}

// However nodes fail while a lock goes from one process to another, no two have it at the same
// time. Later holders have larger tokens.
func TestRelay(t *testing.T) {
	adopted := 0
	for seed := range uint64(16) {
		bubble(t, 3+2*int(seed%2), func(t *testing.T, c *cluster) {
			r := &relay{cluster: c, rng: rand.New(rand.NewPCG(seed, 0))}
			var processes sync.WaitGroup
			for range 4 {
				l := c.queuer()
				processes.Go(func() { r.run(l) })
			}
			r.fail()
			for _, f := range c.nodes {
				f.heal()
			}
			r.mu.Lock()
			r.over = true
			r.mu.Unlock()
			processes.Wait()
			time.Sleep(2 * ttl) // what is under way still
			slices.SortFunc(r.all, func(a, b passing) int { return int(a.from - b.from) })
			last := passing{}
			for _, a := range r.all {
				if a.from < last.to || a.token < last.token {
					t.Errorf("seed %d: %+v after %+v", seed, a, last)
				}
				if a.token == last.token {
					adopted++
				}
				last = a
			}
		})
	}
	if adopted < 12 {
		t.Errorf("%d times only was a lock passed on", adopted)
	}
}
