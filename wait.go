package fenlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// waiter decides when an acquirer that was refused tries again.
type waiter interface {
	// wait returns nil when it is time to try again, and ctx's error if that is
	// done first. refused is why the last attempt failed.
	wait(ctx context.Context, name string, refused error) error
}

// poller waits for a random time, as the Redlock page describes ("Retry on
// failure"): random, so that acquirers that met do not meet again.
type poller struct{}

const pollInterval = 100 * time.Millisecond

func (poller) wait(ctx context.Context, _ string, refused error) error {
	// Between a half and one and a half of the interval.
	d := pollInterval/2 + rand.N(pollInterval)
	var held *HeldError
	if errors.As(refused, &held) && held.RetryAfter > 0 && held.RetryAfter < d {
		// It may end sooner; some of the randomness stays.
		d = held.RetryAfter + rand.N(pollInterval/10)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
