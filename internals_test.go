package fenlock

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// SetSeen makes a Locker propose more than token, as if its wall clock were far
// ahead.
func SetSeen(l *Locker, token fence.Token) { l.client.Observe(token) }

// Waiters returns how many waiters a Locker remembers.
func Waiters(l *Locker) int { return l.client.Counts().Waiters }

// Ticking returns how many locks a Locker is to wake.
func Ticking(l *Locker) int { return l.client.Counts().Held }

// LateReason has an Observer hear of an acquisition whose reason to wait is told after its
// end.
func LateReason(o *Observer) {
	e := events{observer: o, clock: func() time.Duration { return 0 }, running: &running{}}
	w := e.watch(context.Background(), "a")
	w.acquired(1, false, nil)
	w.waits()
	e.drain()
	e.running.Wait()
}

// Raise has later acquisitions on a lock's group get a larger token than that number.
func Raise(ctx context.Context, k *Lock, to fence.Token) error {
	x, err := k.startExtend(to)
	if err != nil {
		return err
	}
	return k.awaitExtension(ctx, x)
}
