package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

type eavesdropKey struct{}

// eavesdropper writes down what an Observer hears.
type eavesdropper struct {
	t      *testing.T
	mu     sync.Mutex
	events []string
	nodes  map[string]int // requests, by operation and answer
	took   time.Duration  // the longest of them
	token  fence.Token
}

func (o *eavesdropper) heard(ctx context.Context, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Value(eavesdropKey{}) != "caller" {
		o.t.Errorf("%s: not the caller's context", format)
	}
	o.events = append(o.events, fmt.Sprintf(format, args...))
}

// reason is which of the errors for deciding it is.
func reason(err error) string {
	if err == nil {
		return "ok"
	}
	for _, is := range []error{fenlock.ErrLost, fenlock.ErrMaxHold, fenlock.ErrHeld, fenlock.ErrNoQuorum,
		fenlock.ErrReleased, context.DeadlineExceeded} {
		if errors.Is(err, is) {
			return strings.TrimPrefix(is.Error(), "fenlock: ")
		}
	}
	return err.Error()
}

func (o *eavesdropper) observer() fenlock.Observer {
	o.nodes = map[string]int{}
	return fenlock.Observer{
		Acquire: func(ctx context.Context, e fenlock.AcquireEvent) {
			o.token = max(o.token, e.Token)
			o.heard(ctx, "acquire %s: %s, token %v, waited %v, %v", e.Name, reason(e.Err), e.Token > 0, e.Waited, e.Took)
		},
		Wait: func(ctx context.Context, name string) { o.heard(ctx, "wait %s", name) },
		Extend: func(ctx context.Context, e fenlock.ExtendEvent) {
			o.heard(ctx, "extend %s: %s, %v left, token %v", e.Name, reason(e.Err), e.Left, e.Token == o.token)
		},
		Lost: func(ctx context.Context, e fenlock.LostEvent) {
			o.heard(ctx, "lost %s: %s after %v, token %v", e.Name, reason(e.Err), e.Held, e.Token == o.token)
		},
		Release: func(ctx context.Context, e fenlock.ReleaseEvent) {
			o.heard(ctx, "release %s: %s after %v, %v left, token %v", e.Name, reason(e.Err), e.Held, e.Left, e.Token == o.token)
		},
		Request: func(e fenlock.RequestEvent) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if e.Node != "a" && e.Node != "b" && e.Node != "c" || (e.Err == nil) != (e.Status != node.Unknown) {
				o.t.Errorf("%+v", e)
			}
			o.nodes[e.Op+" "+e.Status.String()]++
			o.took = max(o.took, e.Took)
		},
	}
}

// wants compares what was heard, and forgets it.
func (o *eavesdropper) wants(want ...string) {
	o.t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if got := strings.Join(o.events, "\n"); got != strings.Join(want, "\n") {
		o.t.Errorf("heard\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	o.events = nil
}

func TestEvents(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		o := &eavesdropper{t: t}
		l := c.lockerOn((*faulty).queuer, func(c *fenlock.Config) { c.Observer = o.observer() })
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), eavesdropKey{}, "caller"))
		defer cancel()
		lock, err := l.Acquire(ctx, "a")
		wantErr(t, err)
		o.wants("acquire a: ok, token true, waited false, 0s")
		time.Sleep(ttl / 2)
		o.wants(fmt.Sprintf("extend a: ok, %v left, token true", validity))
		wantErr(t, lock.Extend(ctx))
		o.wants(fmt.Sprintf("extend a: ok, %v left, token true", validity))
		if o.nodes["acquire granted"] != 3 || o.nodes["extend granted"] != 6 || len(o.nodes) != 2 {
			t.Errorf("requests %v", o.nodes)
		}

		// One caller waits, and one gives up; what is refused at once is not told.
		short, end := context.WithTimeout(ctx, time.Second)
		_, err = l.Acquire(short, "a")
		wantErr(t, err, context.DeadlineExceeded)
		end()
		o.wants("wait a", "acquire a: the lock is held, token false, waited true, 1s")
		_, err = l.TryAcquire(ctx, "a")
		wantErr(t, err, fenlock.ErrHeld)
		o.wants("acquire a: the lock is held, token false, waited false, 0s")
		l.Acquire(ctx, "")
		go func() {
			time.Sleep(time.Second)
			wantErr(t, lock.Release(ctx))
			wantErr(t, lock.Release(ctx), fenlock.ErrReleased)
		}()
		next, err := l.Acquire(ctx, "a")
		wantErr(t, err)
		synctest.Wait()
		if len(o.events) != 3 || o.events[0] != "wait a" { // the order of the others is theirs
			t.Errorf("heard %q", o.events)
		}
		wantErr(t, next.Extend(ctx)) // it was given to it, and valid for a moment
		synctest.Wait()
		o.events = nil

		// It ends by itself: the nodes are gone.
		for _, f := range c.nodes {
			f.set(allOps, fault{hang: true})
		}
		o.mu.Lock()
		o.took = 0
		o.mu.Unlock()
		time.Sleep(ttl)
		synctest.Wait()
		first := o.events[0]
		if !strings.HasPrefix(first, "extend a: no quorum of nodes, 6.") || !strings.HasSuffix(first, "left, token true") {
			t.Errorf("heard %s", first)
		}
		if want := fmt.Sprintf("lost a: the lock was lost after %v, token true", validity); !slices.Contains(o.events, want) {
			t.Errorf("heard %q; want %s", o.events, want)
		}
		if o.took != nodeTimeout || o.nodes["extend unknown"] == 0 {
			t.Errorf("the longest request took %v; %v", o.took, o.nodes)
		}
		o.events = nil
		cancel() // what was acquired with a context is told with it, later too
		wantErr(t, next.Release(t.Context()), fenlock.ErrLost)
		o.wants(fmt.Sprintf("release a: the lock was lost after %v, 0s left, token true", validity))
	})
}

// A wait is told once, and its end follows, whatever becomes of it: a count of those who
// wait comes back to 0.
func TestWaitsAreToldOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var mu sync.Mutex
		waiting, begun, panics := 0, 0, true
		l := c.lockerOn((*faulty).queuer, func(c *fenlock.Config) {
			c.Observer = fenlock.Observer{
				Wait: func(context.Context, string) {
					mu.Lock()
					defer mu.Unlock()
					waiting++
					begun++
				},
				Acquire: func(_ context.Context, e fenlock.AcquireEvent) {
					mu.Lock()
					defer mu.Unlock()
					if e.Waited {
						waiting--
					}
				},
				Waiting: func(context.Context, string, error) {
					if panics {
						panic("an observer")
					}
				},
			}
		})
		wants := func(now, all int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if waiting != now || begun != all {
				t.Errorf("%d wait, of %d; want %d of %d", waiting, begun, now, all)
			}
		}
		held := take(t, l, "a")
		wants(0, 0)
		func() {
			defer func() { recover() }()
			l.Acquire(t.Context(), "a")
		}()
		wants(0, 1)
		panics = false
		for i := range 5 { // four of them in the local queue
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Minute)
				defer cancel()
				lock, err := l.Acquire(ctx, "a")
				if err == nil {
					wantErr(t, lock.Release(t.Context()))
				}
			}()
		}
		wants(5, 6)
		for _, f := range c.nodes { // and then they wait for nodes
			f.set(acquire, fault{hang: true})
		}
		time.Sleep(10 * time.Second)
		wants(5, 6)
		for _, f := range c.nodes {
			f.heal()
		}
		time.Sleep(80 * time.Second)
		wants(4, 6)
		wantErr(t, held.Release(t.Context()))
		time.Sleep(time.Minute)
		wants(0, 6)
	})
}

// An observer that panics when it is told of an acquisition does so in its caller's goroutine,
// which may recover. The caller has no lock then, and others are told as before.
func TestObserverThatPanicsWhenItIsAcquired(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var heard []string
		l := c.locker(func(c *fenlock.Config) {
			c.Observer.Acquire = func(_ context.Context, e fenlock.AcquireEvent) {
				heard = append(heard, e.Outcome())
				if len(heard) == 1 {
					panic("an observer")
				}
			}
			c.Observer.Release = func(context.Context, fenlock.ReleaseEvent) { heard = append(heard, "released") }
		})
		wantPanic(t, func() { l.Acquire(t.Context(), "a") })
		synctest.Wait()
		_, err := l.TryAcquire(t.Context(), "a")
		wantErr(t, err)
		wantErr(t, l.Close())
		if fmt.Sprint(heard) != "[acquired released acquired]" {
			t.Errorf("heard %q", heard)
		}
	})
}

// A release whose caller does not wait for it is told all the same.
func TestReleaseIsToldWithoutItsCaller(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		told := 0
		l := c.locker(func(c *fenlock.Config) {
			c.Observer.Release = func(context.Context, fenlock.ReleaseEvent) { told++ }
		})
		lock := take(t, l, "a")
		for _, f := range c.nodes {
			f.set(release, fault{hang: true})
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantErr(t, lock.Release(ctx), context.Canceled)
		time.Sleep(ttl)
		synctest.Wait()
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}

// While an observer is slow, one caller waits for it and the others do not; what is about them is
// told after that. Close waits until all was told.
func TestSlowObserver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var heard []string
		l := c.locker(func(c *fenlock.Config) {
			c.Observer.Acquire = func(_ context.Context, e fenlock.AcquireEvent) {
				time.Sleep(time.Second)
				heard = append(heard, e.Name)
			}
		})
		go l.TryAcquire(t.Context(), "a")
		synctest.Wait()
		began := time.Now()
		take(t, l, "b")
		take(t, l, "c")
		if took := time.Since(began); took != 0 {
			t.Errorf("the others waited for %v", took)
		}
		wantErr(t, l.Close())
		if fmt.Sprint(heard) != "[a b c]" {
			t.Errorf("heard %q", heard)
		}
	})
}

// Many callers at once, of whom each tells what others have queued: nothing is lost, and no
// two are told at once.
func TestEventsOfManyCallers(t *testing.T) {
	const callers, cycles = 16, 50
	var config fenlock.Config
	for _, name := range []string{"a", "b", "c"} {
		config.Nodes = append(config.Nodes, memnode.New(name))
	}
	acquired, released := 0, 0 // the race detector would tell
	config.Observer.Acquire = func(context.Context, fenlock.AcquireEvent) { acquired++ }
	config.Observer.Release = func(context.Context, fenlock.ReleaseEvent) { released++ }
	l, err := fenlock.New(config)
	wantErr(t, err)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range cycles {
				lock, err := l.Acquire(context.Background(), fmt.Sprint(i))
				wantErr(t, err)
				wantErr(t, lock.Release(context.Background()))
			}
		})
	}
	all.Wait()
	wantErr(t, l.Close())
	if acquired != callers*cycles || released != callers*cycles {
		t.Errorf("%d were acquired, %d released; want %d", acquired, released, callers*cycles)
	}
}

// A caller that is told the reason by another caller of its process may have the lock by then.
func TestWaitIsNotToldAfterItsEnd(t *testing.T) {
	var heard []string
	fenlock.LateReason(&fenlock.Observer{
		Wait:    func(context.Context, string) { heard = append(heard, "wait") },
		Acquire: func(_ context.Context, e fenlock.AcquireEvent) { heard = append(heard, fmt.Sprint(e.Waited)) },
	})
	if fmt.Sprint(heard) != "[false]" {
		t.Errorf("heard %q", heard)
	}
}

func TestOutcomes(t *testing.T) {
	held, none := &fenlock.HeldError{Name: "a"}, &fenlock.QuorumError{Name: "a"}
	none.Errors = []fenlock.NodeError{{Node: "n", Err: fmt.Errorf("%w %w", context.Canceled, context.DeadlineExceeded)}}
	gaveUp := func(why, last error) error { return fmt.Errorf("gave up: %w: %w", why, last) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "acquired"},
		{held, "held"},
		{none, "no_quorum"},
		{gaveUp(context.DeadlineExceeded, held), "held"},
		{gaveUp(context.DeadlineExceeded, &fenlock.QuorumError{}), "no_quorum"},
		{gaveUp(context.Canceled, held), "cancelled"},
		{gaveUp(context.Canceled, none), "cancelled"},
		{fmt.Errorf("no time: %w", context.DeadlineExceeded), "cancelled"},
		{fenlock.ErrClosed, "error"},
	} {
		if got := (fenlock.AcquireEvent{Err: c.err}).Outcome(); got != c.want {
			t.Errorf("%v: %q; want %q", c.err, got, c.want)
		}
	}
	for _, c := range []struct {
		e    fenlock.ExtendEvent
		want string
	}{
		{fenlock.ExtendEvent{Left: 1}, "extended"},
		{fenlock.ExtendEvent{Left: 1, Err: none}, "no_quorum"},
		{fenlock.ExtendEvent{Err: none}, "ended"},
		{fenlock.ExtendEvent{Err: fenlock.ErrReleased}, "ended"},
	} {
		if got := c.e.Outcome(); got != c.want {
			t.Errorf("%+v: %q; want %q", c.e, got, c.want)
		}
	}
	for err, want := range map[error]string{fenlock.ErrLost: "lost", fenlock.ErrMaxHold: "max_hold"} {
		err = fmt.Errorf("%w: why", err)
		if got := (fenlock.LostEvent{Err: err}).Cause(); got != want {
			t.Errorf("%v: %q", err, got)
		}
		if e := (fenlock.ReleaseEvent{Err: err}); !e.Lost() {
			t.Errorf("%v: not lost", err)
		}
	}
	for _, err := range []error{nil, none} {
		if e := (fenlock.ReleaseEvent{Err: err}); e.Lost() {
			t.Errorf("%v: lost", err)
		}
	}
}

// What is left of a lock that was given says nothing about extensions, until it has had one.
func TestReleaseOfWhatWasGiven(t *testing.T) {
	for _, test := range []struct {
		held  time.Duration
		given bool
	}{{0, true}, {time.Second, false}} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			first := c.comes(c.queuer()).lock
			heard := make(chan fenlock.ReleaseEvent, 1)
			waits := c.queuer(func(c *fenlock.Config) {
				c.Observer.Release = func(_ context.Context, e fenlock.ReleaseEvent) { heard <- e }
			})
			done := make(chan *fenlock.Lock)
			go func() {
				lock, err := waits.Acquire(t.Context(), name)
				wantErr(t, err)
				done <- lock
			}()
			time.Sleep(time.Second)
			c.gives(first)
			lock := <-done
			time.Sleep(test.held)
			synctest.Wait()
			wantErr(t, lock.Release(t.Context()))
			synctest.Wait()
			if e := <-heard; e.Given != test.given || (e.Left < 2*time.Second) != test.given {
				t.Errorf("held for %v: %+v", test.held, e)
			}
		})
	}
}
