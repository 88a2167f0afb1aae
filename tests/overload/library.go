//go:build linux

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
	"github.com/valkey-io/valkey-go/valkeylock"

	"github.com/fenlock/fenlock/tests/faults/library"
)

// valkeylocks is the library that tests/faults does not have, since its lock is one on one server.
const valkeylocks = "valkeylock"

// open opens a library with its defaults, but for the TTL. Redsync gets fenlock's node timeout. The
// clients of a herd would be of one machine each, so they have labels of their own.
func open(name string, urls []string, ttl time.Duration, label string) (library.Locker, error) {
	if name == valkeylocks {
		l, err := valkeylock.NewLocker(valkeylock.LockerOption{
			ClientOption: valkey.ClientOption{InitAddress: []string{strings.TrimPrefix(urls[0], "valkey://")}},
			KeyValidity:  ttl, NoLoopTracking: true,
		})
		return majorityOfKeys{locker: l, ttl: ttl}, err
	}
	return library.Open(library.Config{Library: name, URLs: urls, TTL: ttl, MaxTTL: ttl, NodeTimeout: ttl / 20,
		Label: label})
}

// majorityOfKeys is valkeylock: a majority of three keys of one server. It extends by itself.
type majorityOfKeys struct {
	library.Locker // nil
	locker         valkeylock.Locker
	ttl            time.Duration
}

func (m majorityOfKeys) Acquire(ctx context.Context, name string) (library.Lease, error) {
	holds, end := context.WithCancel(context.WithoutCancel(ctx)) // which ends the lock as well
	stop := context.AfterFunc(ctx, end)
	held, cancel, err := m.locker.WithContext(holds, name)
	if err != nil || !stop() {
		return nil, errors.Join(err, ctx.Err())
	}
	return keysHeld{ctx: held, cancel: cancel, ttl: m.ttl}, nil
}

func (m majorityOfKeys) Close() error { m.locker.Close(); return nil }

// keysHeld is a lock of valkeylock. It does not tell how long it is valid.
type keysHeld struct {
	library.Lease // nil
	ctx           context.Context
	cancel        context.CancelFunc
	ttl           time.Duration
}

func (k keysHeld) Context() context.Context      { return k.ctx }
func (k keysHeld) Release(context.Context) error { k.cancel(); return nil }

func (k keysHeld) Remaining() time.Duration {
	if k.ctx.Err() != nil {
		return 0
	}
	return k.ttl
}
