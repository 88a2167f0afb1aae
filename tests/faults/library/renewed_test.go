package library

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node/clock"
)

// What the harness does for a rival's lock: it is extended in time, and its user
// hears of its end.
func TestRenewed(t *testing.T) {
	const ttl = 150 * time.Millisecond
	extended := make(chan struct{}, 1000)
	fail := make(chan struct{})
	l := newRenewed(ttl, rival{
		until: clock.Now() + ttl,
		extend: func(context.Context) (time.Duration, error) {
			select {
			case <-fail:
				return 0, errors.New("no")
			default:
				extended <- struct{}{}
				return clock.Now() + ttl, nil
			}
		},
		release: func(context.Context) error { return nil },
	})
	for range 5 {
		<-extended
	}
	close(fail)
	select {
	case <-l.Context().Done():
	case <-time.After(3 * time.Minute):
		t.Fatal("it does not end")
	}
	if l.Remaining() != 0 || !errors.Is(context.Cause(l.Context()), errExpired) {
		t.Errorf("%v left, %v", l.Remaining(), context.Cause(l.Context()))
	}
	if err := l.Release(t.Context()); !errors.Is(err, errExpired) {
		t.Errorf("release: %v", err)
	}
	if err := l.Extend(t.Context()); !errors.Is(err, errExpired) {
		t.Errorf("extend: %v", err)
	}

	l = newRenewed(time.Hour, rival{
		until: clock.Now() + time.Hour, release: func(context.Context) error { return errors.New("unlock") },
	})
	if left := l.Remaining(); left <= 0 || left > time.Hour {
		t.Errorf("%v left", left)
	}
	if err := l.Release(t.Context()); err == nil || l.Remaining() != 0 ||
		!errors.Is(context.Cause(l.Context()), errLetGo) {
		t.Errorf("release: %v; %v left; %v", err, l.Remaining(), context.Cause(l.Context()))
	}
}
