package ui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// polling starts a poller that ends with the test.
func polling(t *testing.T, f *fake) *poller {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	return newPoller(ctx, &running, f, "", &trail{}, 0)
}

// However many pages are open, the group is looked at once a second; without any, never.
func TestOnePollerForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		p := polling(t, f)
		time.Sleep(time.Hour)
		if n := f.looked(); n != 0 {
			t.Fatalf("looked %d times without a page", n)
		}
		var leave []func()
		for range 50 {
			leave = append(leave, p.watch(""))
		}
		time.Sleep(10*time.Second - time.Millisecond)
		if n := f.looked(); n != 10 {
			t.Errorf("looked %d times in 10 s, for 50", n)
		}
		for _, f := range leave {
			f()
		}
		time.Sleep(linger)
		n := f.looked()
		if n > 10+int(linger/every) {
			t.Errorf("looked %d times", n)
		}
		time.Sleep(time.Hour)
		if now := f.looked(); now > n+1 {
			t.Errorf("looked %d times after everybody had left", now-n)
		}
		if p, _ := p.current(); p != nil {
			t.Error("there is a picture, an hour old")
		}
	})
}

func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.slow = 3 * time.Second
		p := polling(t, f)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.now(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before there is a picture: %v", err)
		}
		start := time.Now()
		if pic, err := p.now(t.Context()); err != nil || pic == nil || time.Since(start) != 2*time.Second {
			t.Errorf("%v, %v after %v", pic, err, time.Since(start))
		}
		start = time.Now()
		if _, err := p.now(t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		synctest.Wait()
	})
}

// A look that costs something is taken less often.
func TestRest(t *testing.T) {
	for _, c := range []struct {
		slow  time.Duration
		looks int // in 200 s
	}{{0, 200}, {200 * time.Millisecond, 200}, {time.Second, 40}, {4 * time.Second, 10}, {9 * time.Second, 6}} {
		t.Run(c.slow.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(3)
				f.slow = c.slow
				p := polling(t, f)
				defer p.watch("")()
				time.Sleep(200*time.Second - time.Millisecond)
				if n := f.looked(); n > c.looks || n < c.looks*4/5 {
					t.Errorf("looked %d times", n)
				}
			})
		})
	}
}

func TestSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		p := polling(t, f)
		defer p.watch("")()
		synctest.Wait()
		p.soon()
		synctest.Wait()
		if n := f.looked(); n != 2 {
			t.Errorf("looked %d times", n)
		}
	})
}

// A list that takes too long is given up, and what it had is shown.
func TestLookIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.hold("a", "x", 1)
		f.slow = time.Hour
		start := time.Now()
		p := look(t.Context(), f, "", nil, nil)
		if took := time.Since(start); took != lookLimit || !errors.Is(p.err, context.DeadlineExceeded) || len(p.locks) != 1 {
			t.Errorf("%v, %v, %d locks", took, p.err, len(p.locks))
		}
	})
}

// Only so many queues are asked for, beside those of open pages.
func TestQueuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		for i := range 3 * maxQueues {
			f.hold(fmt.Sprintf("%04d", i), "x", 1, "w")
		}
		p := look(t.Context(), f, "", []string{"0149", "none"}, nil)
		queued := 0
		for _, l := range p.locks {
			if l.queued {
				queued++
			}
		}
		if queued != maxQueues+1 || len(p.single) != 2 || len(p.single["0149"].waiters) != 1 {
			t.Errorf("%d queues, %v", queued, p.single)
		}
		if l := p.single["none"]; l.Name != "none" || !l.queued || l.Waiting != 0 {
			t.Errorf("a lock that is free is %+v", l)
		}
	})
}

// The trail tells when it has a gap.
func TestGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		p := polling(t, f)
		for range 2 {
			leave := p.watch("")
			synctest.Wait()
			f.hold("a", fmt.Sprint("host", time.Now()), 1)
			time.Sleep(every)
			leave()
			time.Sleep(time.Minute)
			f.hold("a", "meanwhile", 1)
		}
		events, _ := p.trail.about(0, "")
		var all []string
		for _, e := range events {
			all = append(all, string(e.kind))
		}
		if got := strings.Join(all, " "); got != "noticed taken noticed moved" ||
			!strings.Contains(events[2].text, "meanwhile") {
			t.Errorf("told %s: %v", got, events)
		}
	})
}
