package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// contender is a lock that is measured.
type contender struct {
	name string
	what string // how it is set up, for the reader
	open func(b *bench) (client, error)
}

// client is one process's worth of a contender: it shares no connection with
// other clients.
type client interface {
	// acquire waits until it has the lock, or until ctx is done.
	acquire(ctx context.Context, name string) (release func() error, err error)
	close()
}

// openTries is how often a client is opened that hangs the first time it is used.
const openTries = 3

// openAll opens n clients, connected and past whatever they do only once. What
// was opened is closed if that fails.
func openAll(ctx context.Context, b *bench, c contender, n int) (clients []client, err error) {
	defer func() {
		if err != nil {
			closeAll(clients)
			clients = nil
		}
	}()
	for i := range n {
		var cl client
		for try := 1; ; try++ {
			if cl, err = c.open(b); err != nil {
				return clients, fmt.Errorf("%s: %w", c.name, err)
			}
			err = within(ctx, b.giveUp, func(ctx context.Context) error {
				_, err := measureCycle(ctx, cl, fmt.Sprint("bench:warm:", i), 3)
				return err
			})
			if err == nil {
				break
			}
			// One that hangs is not closed: that might hang too.
			if !errors.Is(err, errGaveUp) || try == openTries {
				return append(clients, cl), fmt.Errorf("%s: %w", c.name, err)
			}
		}
		clients = append(clients, cl)
	}
	return clients, nil
}

func closeAll(clients []client) {
	for _, c := range clients {
		c.close()
	}
}

// library is a client that is made of functions.
type library struct {
	lock func(ctx context.Context, name string) (release func() error, err error)
	end  func()
}

func (l library) acquire(ctx context.Context, name string) (func() error, error) {
	return l.lock(ctx, name)
}

func (l library) close() { l.end() }

// measureCycle returns the mean time of acquire and release, one at a time.
func measureCycle(ctx context.Context, c client, name string, cycles int) (time.Duration, error) {
	start := time.Now()
	for range cycles {
		release, err := c.acquire(ctx, name)
		if err != nil {
			return 0, err
		}
		if err := release(); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(cycles), nil
}
