package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
)

var someClient = strings.Repeat("1", node.IDLength)

// A client is told that something may have been missed whenever it is reachable anew, and of
// nothing before Listen has returned. It hears of its own waiters only, whatever a store says.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, told, lost := NewLifetime(), make(chan string, 10), make(chan error)
		attend := func(ctx context.Context, l *Listener) error {
			if l.Client != someClient || l.Begins() {
				t.Errorf("%q, %v", l.Client, l.Begins())
			}
			l.Begun()
			for _, said := range []string{"a notice", someClient, someClient + ":x", "2" + someClient[1:] + ":1",
				someClient + ":1 12", someClient + ":2", someClient + ":1 12 34"} {
				l.Tell(said)
			}
			return <-lost
		}
		if err := Listen(t.Context(), life, someClient, func(n string) { told <- n }, attend); err != nil {
			t.Fatal(err)
		}
		lost <- errors.New("it is lost")
		time.Sleep(maxRelisten)
		life.End()
		close(lost)
		life.Wait()
		close(told)
		var all []string
		for n := range told {
			all = append(all, n)
		}
		once := someClient + ":2," + someClient + ":1 12 34"
		if got := strings.Join(all, ","); got != once+",,"+once {
			t.Errorf("it was told %q", got)
		}
	})
}

// The first attempt's error is that of Listen, and others are made all the same, ever more rarely.
func TestListenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, broken := NewLifetime(), errors.New("it is broken")
		const begun = 12 // the attempt that works, for a moment
		var at []time.Time
		attend := func(ctx context.Context, l *Listener) error {
			if l.Answered() != (len(at) > 0) {
				t.Errorf("after %d attempts: %v", len(at), l.Answered())
			}
			at = append(at, time.Now())
			if len(at)-1 == begun {
				l.Begun()
			}
			return broken
		}
		var told []string
		if err := Listen(t.Context(), life, someClient, func(n string) { told = append(told, n) }, attend); err != broken {
			t.Fatalf("%v", err)
		}
		time.Sleep(time.Minute)
		life.End()
		life.Wait()
		if len(at) < 20 || len(told) != 1 || told[0] != "" {
			t.Errorf("%d attempts in a minute, %q", len(at), told)
		}
		wait := minRelisten
		for i := 1; i < len(at); i++ {
			if i-1 == begun {
				wait = minRelisten
			}
			if d := at[i].Sub(at[i-1]); d < wait*3/4 || d > wait*5/4 {
				t.Errorf("attempt %d came after %v, want %v or a quarter more or less", i, d, wait)
			}
			wait = min(2*wait, maxRelisten)
		}
	})
}

// Whatever attend does, Listen returns with its context and with the node.
func TestListenThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := NewLifetime()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		hangs := func(ctx context.Context, l *Listener) error {
			<-ctx.Done()
			return nil
		}
		if err := Listen(ctx, life, someClient, nil, hangs); err != context.DeadlineExceeded {
			t.Errorf("%v", err)
		}
		time.AfterFunc(time.Second, func() { life.End() })
		if err := Listen(t.Context(), life, someClient, nil, hangs); err != ErrClosed {
			t.Errorf("%v", err)
		}
		life.Wait()
		if err := Listen(t.Context(), life, someClient, nil, hangs); err != ErrClosed {
			t.Errorf("%v", err)
		}
		if err := Listen(t.Context(), NewLifetime(), "nobody", nil, hangs); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%v", err)
		}
		ended := func(context.Context, *Listener) error { return nil }
		life = NewLifetime()
		if err := Listen(t.Context(), life, someClient, nil, ended); err == nil {
			t.Error("it listens, although nothing has begun")
		}
		life.End()
		life.Wait()
	})
}
