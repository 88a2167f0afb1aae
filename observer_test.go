package fenlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// oneByOne is a node.Starter whose outcomes are told one after the other, on one
// goroutine, as those of a connection are.
type oneByOne struct {
	fenlock.Node
	answers chan func()
}

func (l oneByOne) Start(r node.Request, _ time.Duration, call node.Call) {
	answer, err := l.Node.Do(context.Background(), r)
	l.answers <- func() { call.Done(answer, err) }
}

// observed returns a Locker whose callers wait for "held", and the lock that they
// wait for.
func observed(t *testing.T, waiting func(*fenlock.Locker)) (*fenlock.Locker, *fenlock.Lock) {
	t.Helper()
	n := memnode.New("a node")
	l := oneByOne{n, make(chan func(), 100)}
	go func() {
		for tell := range l.answers {
			tell()
		}
	}()
	other, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n.Share()}})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := other.TryAcquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	var locker *fenlock.Locker
	locker, err = fenlock.New(fenlock.Config{Nodes: []fenlock.Node{l}, Observer: fenlock.Observer{
		Waiting: func(context.Context, string, error) { waiting(locker) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		locker.Close()
		other.Close()
		time.Sleep(time.Minute) // what is left to do is done
		close(l.answers)
	})
	return locker, lock
}

// An observer that takes its time is waited for by its caller, not by whoever else
// uses the same connection.
func TestObserverThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		l, held := observed(t, func(*fenlock.Locker) { <-proceed })
		done := make(chan error)
		go func() {
			lock, err := l.Acquire(context.Background(), "held")
			if err == nil {
				err = lock.Release(context.Background())
			}
			done <- err
		}()
		synctest.Wait()
		lock, err := l.TryAcquire(t.Context(), "another")
		if err != nil {
			t.Error(err)
		} else if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		close(proceed)
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// An observer may use the Locker for another name.
func TestObserverThatTakesALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed error
		l, held := observed(t, func(l *fenlock.Locker) {
			lock, err := l.TryAcquire(context.Background(), "another")
			if err == nil {
				err = lock.Release(context.Background())
			}
			failed = err
		})
		time.AfterFunc(time.Second, func() { held.Release(context.Background()) })
		lock, err := l.Acquire(t.Context(), "held")
		if err != nil {
			t.Fatal(err)
		}
		if failed != nil {
			t.Error(failed)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// An observer that panics does so in its caller's goroutine, which may recover: nobody
// is left behind who would take the lock.
func TestObserverThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, held := observed(t, func(*fenlock.Locker) { panic("an observer") })
		for range 3 { // the second and the third may wait behind the one before
			func() {
				defer func() {
					if recover() == nil {
						t.Error("Acquire did not panic")
					}
				}()
				l.Acquire(context.Background(), "held")
			}()
		}
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		lock, err := l.TryAcquire(t.Context(), "held")
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n := fenlock.Waiters(l); n != 0 {
			t.Errorf("%d waiters are left", n)
		}
	})
}
