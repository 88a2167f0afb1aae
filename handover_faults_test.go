package fenlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
)

// An observer that panics at an adoption has the lock released. Until that is over the text is not
// adopted again: the release would take the lease of that.
func TestAdoptionThatPanics(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		text := export(t, c.held())
		panics := true
		l := c.locker(func(c *fenlock.Config) {
			c.Observer.Acquire = func(context.Context, fenlock.AcquireEvent) {
				if panics {
					panics = false
					panic("an observer's")
				}
			}
		})
		c.set(0, 3, release, fault{request: nodeTimeout / 2})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			l.Adopt(t.Context(), text)
		}()
		for range 2 { // before the release, and while it is under way
			if k, err := l.Adopt(t.Context(), text); k != nil {
				t.Error("adopted what is being released")
			} else {
				wantErr(t, err, fenlock.ErrInvalid)
			}
			synctest.Wait()
		}
		time.Sleep(nodeTimeout)
		c.wantLeases(0)
		_, err := l.Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrLost)
	})
}

// A lock that is being released is not adopted again by its Locker.
func TestNoAdoptionDuringTheRelease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		text := export(t, c.held())
		adopted := adopt(t, l, text)
		c.set(0, 3, release, fault{request: nodeTimeout / 2})
		released := make(chan error)
		go func() { released <- adopted.Release(t.Context()) }()
		synctest.Wait()
		_, err := l.Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrInvalid)
		wantErr(t, <-released)
		_, err = l.Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrLost)
	})
}
