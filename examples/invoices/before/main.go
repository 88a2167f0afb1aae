// Command invoices hands out the numbers of invoices, each once and without a gap.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/fenlock/fenlock/examples/invoices/ledger"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

func main() {
	var pools []redis.Pool
	for _, server := range ledger.Servers() {
		pools = append(pools, goredis.NewPool(goredislib.NewClient(&goredislib.Options{Addr: server})))
	}
	locks := redsync.New(pools...)

	invoice := func(r *http.Request) (number int, err error) {
		mutex := locks.NewMutex("invoices", redsync.WithExpiry(ledger.Expiry()), redsync.WithTries(1000))
		if err := mutex.LockContext(r.Context()); err != nil {
			return 0, err
		}
		ctx, lost := context.WithCancelCause(r.Context())
		done := make(chan struct{})
		go extend(mutex, done, lost)
		number, err = ledger.Next(ctx, r)
		close(done)
		if ok, unlock := mutex.UnlockContext(context.WithoutCancel(ctx)); !ok && err == nil {
			err = fmt.Errorf("the lock was lost: %w", unlock)
		}
		return number, err
	}
	if err := ledger.Serve(invoice); err != nil {
		log.Fatal(err)
	}
}

// extend keeps the lock until done, and tells if that did not work.
func extend(mutex *redsync.Mutex, done <-chan struct{}, lost context.CancelCauseFunc) {
	for {
		select {
		case <-done:
			return
		case <-time.After(ledger.Expiry() / 3):
			if ok, err := mutex.Extend(); !ok {
				lost(fmt.Errorf("the lock was not extended: %w", err))
				return
			}
		}
	}
}
