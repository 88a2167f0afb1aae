package fenlocksingleflight_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/integration/fenlocksingleflight"
	"github.com/fenlock/fenlock/node/memnode"
)

// shared is a Cache that several processes have. It refuses stale tokens.
type shared struct {
	guard fence.Guard
	mu    sync.Mutex
	value map[string]string
	asked int // calls of Set, whatever came of them
	sets  []fence.Token
	fails error // of Set
}

func (s *shared) Get(_ context.Context, key string) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key == "broken" {
		return "", false, errBroken
	}
	v, ok := s.value[key]
	return v, ok, nil
}

func (s *shared) Set(ctx context.Context, key, value string, token fence.Token) error {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	return s.guard.Do(ctx, key, token, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fails != nil {
			return s.fails
		}
		if s.value == nil {
			s.value = map[string]string{}
		}
		s.value[key] = value
		s.sets = append(s.sets, token)
		return nil
	})
}

var errBroken = errors.New("the cache is broken")

type group = fenlocksingleflight.Group[string]

func locker(t *testing.T, node *memnode.Node) *fenlock.Locker {
	t.Helper()
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node.Share()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// process is a Group of a process of its own.
func process(t *testing.T, locks fenlocksingleflight.Locks, cache *shared, opts ...fenlock.Option) *group {
	t.Helper()
	g, err := fenlocksingleflight.New(locks, cache, "reports", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Five processes with ten callers each: one load, and all have its value, when it is there.
func TestOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, cache := memnode.New("n"), new(shared)
		var mu sync.Mutex
		loads := 0
		var all sync.WaitGroup
		for range 5 {
			g := process(t, locker(t, node), cache)
			for range 10 {
				all.Go(func() {
					v, err := g.Do(t.Context(), "a", func(context.Context) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						loads++
						time.Sleep(time.Minute)
						return fmt.Sprint("load ", loads), nil
					})
					if v != "load 1" || err != nil {
						t.Errorf("%q, %v", v, err)
					}
				})
			}
		}
		all.Wait()
		if loads != 1 || len(cache.sets) != 1 || !cache.sets[0].Valid() {
			t.Errorf("%d loads, stored with %v", loads, cache.sets)
		}
		node.Crash() // what is in the cache needs no lock
		if v, err := process(t, locker(t, node), cache).Do(t.Context(), "a",
			func(context.Context) (string, error) { return "", errBroken }); v != "load 1" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// An error is told to the callers of its process, and the next process loads.
func TestErrorsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, cache := memnode.New("n"), new(shared)
		var all sync.WaitGroup
		first, second := process(t, locker(t, node), cache), process(t, locker(t, node), cache)
		for range 3 {
			all.Go(func() {
				v, err := first.Do(t.Context(), "a", func(context.Context) (string, error) {
					time.Sleep(time.Second)
					return "half of it", errBroken
				})
				if v != "" || !errors.Is(err, errBroken) {
					t.Errorf("%q, %v", v, err)
				}
			})
		}
		synctest.Wait()
		v, err := second.Do(t.Context(), "a", func(context.Context) (string, error) { return "whole", nil })
		if v != "whole" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		all.Wait()
	})
}

// A caller who leaves takes nothing from the others; when the last one has left, the load ends, and
// a new caller begins anew.
func TestCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := process(t, locker(t, memnode.New("n")), new(shared))
		began := time.Now()
		leave := func(after time.Duration) func() {
			return func() {
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				_, err := g.Do(ctx, "a", func(ctx context.Context) (string, error) {
					<-ctx.Done()
					if at := time.Since(began); at != 3*time.Second {
						t.Errorf("load ended after %v", at)
					}
					time.Sleep(10 * time.Second) // it does not hurry
					return "", ctx.Err()
				})
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != after {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			}
		}
		var all sync.WaitGroup
		for _, after := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
			all.Go(leave(after))
			synctest.Wait()
		}
		all.Wait()
		v, err := g.Do(t.Context(), "a", func(ctx context.Context) (string, error) { return "anew", ctx.Err() })
		if v != "anew" || err != nil || time.Since(began) != 13*time.Second {
			t.Errorf("after %v: %q, %v", time.Since(began), v, err)
		}
	})
}

// Load hears of the loss. What it returns in spite of it is not stored, and another process
// computes it again.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, cache := memnode.New("n"), new(shared)
		g := process(t, locker(t, node), cache)
		v, err := g.Do(t.Context(), "a", func(ctx context.Context) (string, error) {
			node.Crash()
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
				t.Error("it has not heard of the loss")
			}
			if !errors.Is(context.Cause(ctx), fenlock.ErrLost) {
				t.Error(context.Cause(ctx))
			}
			return "late", nil
		})
		if v != "late" || !errors.Is(err, fenlock.ErrLost) || cache.asked != 0 {
			t.Errorf("%q, %v; the cache was asked %d times to store", v, err, cache.asked)
		}
		node.Restart()
		other := process(t, locker(t, node), cache)
		if v, err := other.Do(t.Context(), "a",
			func(context.Context) (string, error) { return "again", nil }); v != "again" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// An error of load is not taken for that of a value which is good, whatever load returns when it
// has heard of the loss.
func TestLoadFailsByLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, fail := range map[string]func(ctx context.Context) error{
			"the cause": context.Cause,
			"the end":   context.Context.Err,
			"a guard's": func(context.Context) error { return fmt.Errorf("%w: %w", errBroken, fence.ErrStale) },
		} {
			node := memnode.New("n")
			v, err := process(t, locker(t, node), new(shared)).Do(t.Context(), "a", func(ctx context.Context) (string, error) {
				node.Crash()
				<-ctx.Done()
				return "half of it", fail(ctx)
			})
			if v != "" || err == nil || errors.Is(err, fenlock.ErrLost) || errors.Is(err, fence.ErrStale) {
				t.Errorf("%s: %q, %v", what, v, err)
			}
			if what == "the end" != errors.Is(err, context.Canceled) || what == "a guard's" != errors.Is(err, errBroken) {
				t.Errorf("%s: not what load returned: %v", what, err)
			}
		}
	})
}

// A process that was paused stores after another one: the cache gets its token, and refuses it.
func TestStaleStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := new(shared)
		g := process(t, locker(t, memnode.New("n")), cache)
		v, err := g.Do(t.Context(), "a", func(ctx context.Context) (string, error) {
			if err := cache.Set(ctx, "a", "newer", fence.MaxToken); err != nil {
				t.Error(err)
			}
			return "older", nil
		})
		if v != "older" || !errors.Is(err, fence.ErrStale) || cache.value["a"] != "newer" {
			t.Errorf("%q, %v; %q is stored", v, err, cache.value["a"])
		}
	})
}

func TestCacheFails(t *testing.T) {
	cache := &shared{fails: errBroken}
	g := process(t, locker(t, memnode.New("n")), cache)
	load := func(context.Context) (string, error) { return "a value", nil }
	if v, err := g.Do(t.Context(), "a", load); v != "a value" || !errors.Is(err, errBroken) {
		t.Errorf("Set: %q, %v", v, err)
	}
	if v, err := g.Do(t.Context(), "broken", load); v != "" || !errors.Is(err, errBroken) {
		t.Errorf("Get: %q, %v", v, err)
	}
}

// Whatever load does, its callers hear of it and the lock is free.
func TestPanic(t *testing.T) {
	node, cache := memnode.New("n"), new(shared)
	g := process(t, locker(t, node), cache)
	func() {
		defer func() {
			p, ok := recover().(error)
			if !ok || !errors.Is(p, errBroken) || !strings.Contains(p.Error(), "TestPanic") {
				t.Errorf("the panic: %v", p)
			}
		}()
		g.Do(t.Context(), "a", func(context.Context) (string, error) { panic(errBroken) })
	}()
	if _, err := g.Do(t.Context(), "a",
		func(context.Context) (string, error) { runtime.Goexit(); return "", nil }); err == nil {
		t.Error("no error for a load that has exited")
	}
	if v, err := process(t, locker(t, node), cache).Do(t.Context(), "a",
		func(context.Context) (string, error) { return "a value", nil }); v != "a value" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
}

// The wait for another process has the bound of WithWait.
func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, cache := memnode.New("n"), new(shared)
		slow := process(t, locker(t, node), cache)
		bounded := process(t, locker(t, node), cache, fenlock.WithWait(5*time.Second))
		var all sync.WaitGroup
		all.Go(func() {
			slow.Do(t.Context(), "a", func(context.Context) (string, error) {
				time.Sleep(time.Minute)
				return "slow", nil
			})
		})
		synctest.Wait()
		_, err := bounded.Do(t.Context(), "a", func(context.Context) (string, error) { return "two at once", nil })
		if !errors.Is(err, fenlock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		all.Wait()
		if len(cache.sets) != 1 || !cache.sets[0].Valid() {
			t.Errorf("stored with %v", cache.sets)
		}
	})
}

func TestInvalid(t *testing.T) {
	l, cache := locker(t, memnode.New("n")), new(shared)
	var none *fenlock.Locker
	g := process(t, l, cache)
	for what, f := range map[string]func() error{
		"nil":          func() error { _, err := fenlocksingleflight.New(nil, cache, "a"); return err },
		"no cache":     func() error { _, err := fenlocksingleflight.New[string](l, nil, "a"); return err },
		"a nil Locker": func() error { _, err := fenlocksingleflight.New(none, cache, "a"); return err },
		"nil Groups": func() error {
			_, err := fenlocksingleflight.New((*groups.Groups)(nil), cache, "a")
			return err
		},
		"no prefix":    func() error { _, err := fenlocksingleflight.New(l, cache, ""); return err },
		"a nil option": func() error { _, err := fenlocksingleflight.New(l, cache, "a", nil); return err },
		"no load":      func() error { _, err := g.Do(t.Context(), "a", nil); return err },
		"a key": func() error {
			_, err := g.Do(t.Context(), "a\n", func(context.Context) (string, error) { return "", nil })
			return err
		},
	} {
		if err := f(); !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
