package telemetry_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/integration/fenlockotel"
)

// What becomes of an acquisition, and how long it took.
func TestAcquisitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, m := newGroup(3), measure(t)
		holder, l := g.locker(t, fenlock.Observer{}), g.locker(t, m.Observer())
		m.wants(t, "fenlock.waiting", ": 0")
		held := take(t, holder, "a")
		must(t, take(t, l, "free").Release(t.Context()))
		m.wants(t, "fenlock.acquire.duration", "outcome=acquired: 1, 1ms")

		if _, err := l.TryAcquire(t.Context(), "a"); !errors.Is(err, fenlock.ErrHeld) {
			t.Error(err)
		}
		m.wants(t, "fenlock.acquire.duration", "outcome=acquired: 1, 1ms", "outcome=held: 1, 1ms")
		m.wants(t, "fenlock.wait.duration")

		var callers sync.WaitGroup
		wait := func(within time.Duration) (cancel context.CancelFunc) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			callers.Go(func() {
				if lock, err := l.Acquire(ctx, "a"); err == nil {
					must(t, lock.Release(t.Context()))
				}
			})
			time.Sleep(10 * roundTrip)
			return cancel
		}
		defer wait(time.Second)()
		defer wait(time.Minute)()
		cancel := wait(time.Minute)
		m.wants(t, "fenlock.waiting", ": 3")
		time.Sleep(time.Second)
		m.wants(t, "fenlock.waiting", ": 2")
		m.wants(t, "fenlock.wait.duration", "outcome=held: 1, 1s")
		cancel()
		m.wants(t, "fenlock.waiting", ": 1")
		m.wants(t, "fenlock.wait.duration", "outcome=cancelled: 1, 1.01s", "outcome=held: 1, 1s")
		must(t, held.Release(t.Context()))
		callers.Wait()
		m.wants(t, "fenlock.waiting", ": 0")
		// It was there 10 round trips before the third, and has it two round trips after the
		// release was called.
		m.wants(t, "fenlock.wait.duration", "outcome=acquired: 1, 1.021s", "outcome=cancelled: 1, 1.01s",
			"outcome=held: 1, 1s")
		m.wants(t, "fenlock.acquire.duration", "outcome=acquired: 2, 1.022s", "outcome=cancelled: 1, 1.01s",
			"outcome=held: 2, 1.001s")

		g[0].Crash()
		g[1].Crash()
		if _, err := l.TryAcquire(t.Context(), "a"); !errors.Is(err, fenlock.ErrNoQuorum) {
			t.Error(err)
		}
		l.Close()
		if _, err := l.TryAcquire(t.Context(), "a"); !errors.Is(err, fenlock.ErrClosed) {
			t.Error(err)
		}
		m.wants(t, "fenlock.acquire.duration", "outcome=acquired: 2, 1.022s", "outcome=cancelled: 1, 1.01s",
			"outcome=error: 1, 0s",
			"outcome=held: 2, 1.001s", "outcome=no_quorum: 1, 1ms")
	})
}

// How long locks are held, and how they end. Whatever ends one, it ends once.
func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, m := newGroup(3), measure(t)
		l := g.locker(t, m.Observer())
		m.wants(t, "fenlock.held", ": 0")
		m.wants(t, "fenlock.lost", "cause=lost: 0", "cause=max_hold: 0")

		released := take(t, l, "released")
		time.Sleep(time.Second)
		m.wants(t, "fenlock.held", ": 1")
		must(t, released.Release(t.Context()))
		if err := released.Release(t.Context()); !errors.Is(err, fenlock.ErrReleased) {
			t.Error(err)
		}
		m.wants(t, "fenlock.held", ": 0")
		m.wants(t, "fenlock.hold.duration", ": 1, 1s")
		// 10 s, less a hundredth and 2 ms, less a round trip and a second.
		m.wants(t, "fenlock.validity.left", ": 1, 8.897s")

		long := take(t, l, "long")
		time.Sleep(2 * time.Minute)
		m.wants(t, "fenlock.lost", "cause=lost: 0", "cause=max_hold: 1")
		m.wants(t, "fenlock.held", ": 0")
		if err := long.Release(t.Context()); !errors.Is(err, fenlock.ErrMaxHold) {
			t.Error(err)
		}
		m.wants(t, "fenlock.held", ": 0")
		m.wants(t, "fenlock.hold.duration", ": 2, 1m0.999s") // the minute counts from the first request
		m.wants(t, "fenlock.validity.left", ": 1, 8.897s")

		// Each third of the TTL, but for the time until the answer, and none after the end.
		if all := m.series(t, "fenlock.extend.left"); len(all) != 1 || !strings.HasPrefix(all[0], "outcome=extended: ") {
			t.Errorf("extensions: %q", all)
		}
		lost := take(t, l, "lost")
		g[0].Crash()
		g[1].Crash()
		time.Sleep(time.Minute)
		m.wants(t, "fenlock.lost", "cause=lost: 1", "cause=max_hold: 1")
		if all := m.series(t, "fenlock.extend.left"); len(all) != 2 || !strings.HasPrefix(all[1], "outcome=no_quorum: ") {
			t.Errorf("extensions: %q", all)
		}
		m.wants(t, "fenlock.held", ": 0")
		if err := lost.Release(t.Context()); !errors.Is(err, fenlock.ErrLost) {
			t.Error(err)
		}
		m.wants(t, "fenlock.held", ": 0")

		o := m.Observer()
		o.Acquire(t.Context(), fenlock.AcquireEvent{Name: "given", Token: 9})
		o.Release(t.Context(), fenlock.ReleaseEvent{Name: "given", Token: 9, Left: time.Second, Given: true})
		m.wants(t, "fenlock.held", ": 0")
		m.wants(t, "fenlock.validity.left", ": 1, 8.897s")
	})
}

// Requests to the nodes, and whether their votes count.
func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, m := newGroup(3), measure(t)
		l := g.locker(t, m.Observer())
		m.wants(t, "fenlock.node.admitted") // they were not asked
		must(t, take(t, l, "a").Release(t.Context()))
		m.wants(t, "fenlock.node.admitted", "node.name=a: 1", "node.name=b: 1", "node.name=c: 1")
		m.wants(t, "fenlock.node.duration",
			"node.name=a operation=acquire outcome=granted: 1, 1ms", "node.name=a operation=release outcome=granted: 1, 1ms",
			"node.name=b operation=acquire outcome=granted: 1, 1ms", "node.name=b operation=release outcome=granted: 1, 1ms",
			"node.name=c operation=acquire outcome=granted: 1, 1ms", "node.name=c operation=release outcome=granted: 1, 1ms")

		g[1].Crash()
		lock := take(t, l, "b")
		m.wants(t, "fenlock.node.admitted", "node.name=a: 1", "node.name=b: 0", "node.name=c: 1")
		must(t, lock.Extend(t.Context())) // the first request of its kind says nothing about the node
		m.wants(t, "fenlock.node.admitted", "node.name=a: 1", "node.name=b: 0", "node.name=c: 1")
		if all := strings.Join(m.series(t, "fenlock.node.duration"), "\n"); !strings.Contains(all,
			"node.name=b operation=acquire outcome=unknown: 1, 1ms\n") {
			t.Errorf("requests:\n%s", all)
		}
		g[1].Restart()
		time.Sleep(3 * time.Second) // the next one that is told of it, at the earliest
		take(t, l, "c")
		m.wants(t, "fenlock.node.admitted", "node.name=a: 1", "node.name=b: 0", "node.name=c: 1")
		if all := strings.Join(m.series(t, "fenlock.node.duration"), "\n"); !strings.Contains(all,
			"node.name=b operation=acquire outcome=rejoining: 1, 1ms\n") {
			t.Errorf("requests:\n%s", all)
		}
		time.Sleep(2 * time.Minute)
		take(t, l, "d")
		m.wants(t, "fenlock.node.admitted", "node.name=a: 1", "node.name=b: 1", "node.name=c: 1")
	})
}

func TestGuards(t *testing.T) {
	m := measure(t)
	count := func(want ...string) {
		t.Helper()
		if got := m.series(t, "fenlock.guard.refused"); !reflect.DeepEqual(got, want) {
			t.Errorf("%q; want %q", got, want)
		}
	}
	count(": 0")
	guard := fence.Guard{Refused: m.Refused}
	for _, token := range []fence.Token{2, 1, 2, 3, 2} {
		guard.Do(t.Context(), "orders", token, func() error { return nil })
	}
	count(": 2")

	m = measure(t, fenlockotel.WithNamesInMetrics())
	m.Refused(t.Context(), &fence.StaleError{Resource: "orders"})
	count("guard.resource=orders: 1")
}

// Names of locks are in no metric, unless they are asked for.
func TestNamesInMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, plain, named := newGroup(3), measure(t), measure(t, fenlockotel.WithNamesInMetrics())
		l := g.locker(t, fenlock.JoinObservers(plain.Observer(), named.Observer()))
		lock := take(t, l, "orders/42")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.Acquire(ctx, "orders/42")
		must(t, lock.Release(t.Context()))
		take(t, l, "orders/43")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for name := range plain.metrics(t) {
			if all := strings.Join(plain.series(t, name), "\n"); strings.Contains(all, "orders") {
				t.Errorf("%s:\n%s", name, all)
			}
		}
		named.wants(t, "fenlock.held", "lock.name=orders/42: 0", "lock.name=orders/43: 0")
		named.wants(t, "fenlock.waiting", "lock.name=orders/42: 0")
		named.wants(t, "fenlock.lost", "cause=max_hold lock.name=orders/43: 1")
		named.wants(t, "fenlock.wait.duration", "lock.name=orders/42 outcome=held: 1, 1s")
		named.wants(t, "fenlock.hold.duration", "lock.name=orders/42: 1, 1s", "lock.name=orders/43: 1, 59.999s")
	})
}

// The units and the kinds that the documents have, and the advice about buckets.
func TestInstruments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t)
		l := newGroup(3).locker(t, m.Observer())
		lock := take(t, l, "a")
		must(t, lock.Extend(t.Context()))
		must(t, lock.Release(t.Context()))
		synctest.Wait()
		all := m.metrics(t)
		for name, unit := range map[string]string{
			"fenlock.acquire.duration": "s", "fenlock.hold.duration": "s", "fenlock.validity.left": "s",
			"fenlock.extend.left": "s", "fenlock.node.duration": "s",
			"fenlock.held": "{lock}", "fenlock.waiting": "{waiter}", "fenlock.lost": "{lock}",
			"fenlock.node.admitted": "{node}",
			"fenlock.guard.refused": "{write}",
		} {
			if got := all[name]; got.Unit != unit || !strings.HasSuffix(got.Description, ".") {
				t.Errorf("%s has the unit %q and the description %q", name, got.Unit, got.Description)
			}
			h, isHistogram := all[name].Data.(metricdata.Histogram[float64])
			if isHistogram != (unit == "s") {
				t.Errorf("%s is a %T", name, all[name].Data)
			}
			if isHistogram && !strings.HasSuffix(name, ".left") && h.DataPoints[0].Bounds[0] != 1e-4 {
				t.Errorf("%s has the bounds %v", name, h.DataPoints[0].Bounds)
			}
		}
		for name, monotonic := range map[string]bool{"fenlock.held": false, "fenlock.waiting": false, "fenlock.lost": true,
			"fenlock.guard.refused": true} {
			if sum, ok := all[name].Data.(metricdata.Sum[int64]); !ok || sum.IsMonotonic != monotonic {
				t.Errorf("%s is %+v", name, all[name].Data)
			}
		}
	})
}

// What is not wanted costs nothing.
func TestNoProviders(t *testing.T) {
	telemetry, err := fenlockotel.New(nil, nil)
	must(t, err)
	if !reflect.ValueOf(telemetry.Observer()).IsZero() {
		t.Error("without providers, something is heard")
	}
	telemetry.Refused(t.Context(), &fence.StaleError{})
}

// Many goroutines at once, on real time: for the race detector, and nothing is counted
// twice or forgotten.
func TestManyAtOnce(t *testing.T) {
	const lockers, cycles = 8, 40
	m, recorder := measure(t), newRecorder()
	traced, err := fenlockotel.New(nil, recorder.provider)
	must(t, err)
	g := newGroup(3)
	var all sync.WaitGroup
	for i := range lockers {
		l := g.locker(t, fenlock.JoinObservers(m.Observer(), traced.Observer()))
		all.Go(func() {
			for k := range cycles {
				lock, err := l.Acquire(context.Background(), string(rune('a'+(i+k)%3)))
				if err == nil {
					err = lock.Release(context.Background())
				}
				if err != nil {
					t.Error(err)
				}
			}
			l.Close()
		})
	}
	all.Wait()
	for name, want := range map[string]string{"fenlock.held": ": 0", "fenlock.waiting": ": 0"} {
		if got := m.series(t, name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	for _, name := range []string{"fenlock.acquire.duration", "fenlock.hold.duration"} {
		if n := m.metrics(t)[name].Data.(metricdata.Histogram[float64]).DataPoints[0].Count; n != lockers*cycles {
			t.Errorf("%s has %d", name, n)
		}
	}
	if n := len(recorder.Ended()); n != 2*lockers*cycles {
		t.Errorf("%d spans", n)
	}
}
