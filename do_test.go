package fenlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

var errWork = errors.New("the work failed")

func TestDo(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		ctx := context.WithValue(t.Context(), key{}, "trace")
		for _, result := range []error{nil, errWork} {
			var inner context.Context
			err := c.locker().Do(ctx, name, func(ctx context.Context, token fence.Token) error {
				inner = ctx
				c.wantLeases(3)
				if !token.Valid() || token != c.lease(0, name).Register {
					t.Errorf("the token is %d", token)
				}
				if ctx.Value(key{}) != "trace" {
					t.Error("the context lacks the caller's values")
				}
				time.Sleep(time.Minute) // far beyond the TTL: extended meanwhile
				wantCause(t, ctx, nil)
				return result
			})
			if err != result {
				t.Errorf("got %v, want work's own error, %v", err, result)
			}
			// What work started in the background must not go on as if the lock were held.
			wantErr(t, inner.Err(), context.Canceled)
			c.wantLeases(0)
		}
	})
}

// A panic keeps no lock and stays a panic.
func TestDoReleasesAfterAPanic(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		defer func() {
			if r := recover(); r != "oops" {
				t.Errorf("recovered %v", r)
			}
			c.wantLeases(0)
		}()
		c.locker().Do(t.Context(), name, func(context.Context, fence.Token) error { panic("oops") })
	})
}

// Work is told that the lock is gone, before another client can have it, and the caller learns it
// even if work did not notice.
func TestDoTellsOfTheLoss(t *testing.T) {
	type loss struct {
		fault fault // of the extensions
		want  error
		work  func(context.Context) error
		also  []error
	}
	bubbles(t, 3, map[string]loss{
		"nodes down, work stops": {down, fenlock.ErrLost,
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, []error{context.Canceled}},
		"nodes down, work fails": {down, fenlock.ErrLost,
			func(ctx context.Context) error { <-ctx.Done(); return errWork }, []error{errWork}},
		"nodes down, work does not notice": {down, fenlock.ErrLost,
			func(context.Context) error { time.Sleep(time.Hour); return nil }, nil},
		"too long": {fault{}, fenlock.ErrMaxHold,
			func(ctx context.Context) error { <-ctx.Done(); return nil }, nil},
	}, func(t *testing.T, c *cluster, test loss) {
		err := c.locker(maxHold(time.Minute)).Do(t.Context(), name, func(ctx context.Context, _ fence.Token) error {
			c.set(0, 3, extend, test.fault)
			result := test.work(ctx)
			wantCause(t, ctx, test.want)
			return result
		})
		wantErr(t, err, append(test.also, test.want)...)
		wantNot(t, err, fenlock.ErrReleased)
		c.wantLeases(0)
	})
}

// The caller's end is work's end, but the lock is released like any other.
func TestDoWithACallerThatGivesUp(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		errShutdown := errors.New("the server shuts down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errShutdown) })
		err := c.locker().Do(ctx, name, func(ctx context.Context, _ fence.Token) error {
			<-ctx.Done()
			wantCause(t, ctx, errShutdown)
			c.wantLeases(3) // held until work has returned
			c.set(0, 3, release, fault{request: 10 * time.Millisecond})
			return ctx.Err()
		})
		c.wantNow(time.Second + 10*time.Millisecond) // until it is released
		wantErr(t, err, context.Canceled)
		wantNot(t, err, fenlock.ErrLost, fenlock.ErrReleased)
		c.wantLeases(0)
	})
}

// Work was done under the lock; that the nodes could not be told is no reason
// to report it as failed. The lease ends by itself.
func TestDoIsNotFailedByItsRelease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		wantErr(t, c.locker().Do(t.Context(), name, func(context.Context, fence.Token) error {
			c.set(0, 3, release, down)
			return nil
		}))
	})
}

// Work does not run without the lock.
func TestDoWithoutTheLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.held()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.locker().Do(ctx, name, func(context.Context, fence.Token) error {
			t.Error("work ran")
			return nil
		})
		wantErr(t, err, fenlock.ErrHeld, context.DeadlineExceeded)
	})
}

// Its context ends with the lock, and its release may be called twice: not of another client's
// lock.
func TestLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		ctx, release, err := l.Lock(context.WithValue(t.Context(), key{}, "trace"), name)
		wantErr(t, err)
		c.wantLeases(3)
		wantCause(t, ctx, nil)
		if ctx.Value(key{}) != "trace" {
			t.Error("the context lacks the caller's values")
		}
		_, _, err = l.Lock(t.Context(), name, fenlock.WithWait(time.Second))
		wantErr(t, err, fenlock.ErrHeld)
		release()
		wantErr(t, ctx.Err(), context.Canceled)
		c.wantLeases(0)
		next := take(t, l, name)
		release()
		c.wantLeases(3)
		wantErr(t, next.Release(t.Context()))

		ctx, release, err = l.Lock(t.Context(), name)
		wantErr(t, err)
		c.set(0, 3, extend, down)
		time.Sleep(ttl)
		wantCause(t, ctx, fenlock.ErrLost)
		release()
	})
}
