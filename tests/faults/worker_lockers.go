//go:build linux

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// locker is a lock library, as one process uses it.
type locker interface {
	try(ctx context.Context, name string) (lease, error)
	acquire(ctx context.Context, name string) (lease, error) // waits until ctx is done
	close() error
}

// lease is a lock that is held.
type lease interface {
	token() fence.Token       // 0 if the library has none
	remaining() time.Duration // of the validity
	context() context.Context // ends with the lock
	extend(ctx context.Context) error
	release(ctx context.Context) error
}

// The libraries.
const (
	libraryFenlock   = "fenlock"
	libraryRedsync   = "redsync"
	libraryRedislock = "redislock"
	// libraryBroken locks nothing. The checkers must notice.
	libraryBroken = "broken"
)

func openLocker(c workerConfig) (locker, error) {
	switch c.Library {
	case libraryFenlock:
		return openFenlock(c)
	case libraryRedsync:
		return openRedsync(c)
	case libraryRedislock:
		return openRedislock(c)
	case libraryBroken:
		return &brokenLocker{ttl: c.TTL}, nil
	}
	return nil, fmt.Errorf("unknown library %q: there are %s, %s and %s", c.Library, libraryFenlock, libraryRedsync, libraryRedislock)
}

type fenlockLocker struct{ *fenlock.Locker }

func openFenlock(c workerConfig) (locker, error) {
	config := fenlock.Config{
		TTL: c.TTL, MaxTTL: c.MaxTTL, NodeTimeout: c.NodeTimeout,
		Label:  fmt.Sprint("client ", c.Client),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	for _, url := range c.URLs {
		node, err := valkeynode.Open(url)
		if err != nil {
			return nil, err
		}
		config.Nodes = append(config.Nodes, node)
	}
	l, err := fenlock.New(config)
	return fenlockLocker{l}, err
}

func (l fenlockLocker) try(ctx context.Context, name string) (lease, error) {
	lock, err := l.TryAcquire(ctx, name)
	return fenlockLease{lock}, err
}

func (l fenlockLocker) acquire(ctx context.Context, name string) (lease, error) {
	lock, err := l.Acquire(ctx, name)
	return fenlockLease{lock}, err
}

func (l fenlockLocker) close() error { return l.Close() }

type fenlockLease struct{ *fenlock.Lock }

func (l fenlockLease) token() fence.Token                { return l.Token() }
func (l fenlockLease) remaining() time.Duration          { return l.Remaining() }
func (l fenlockLease) context() context.Context          { return l.Context() }
func (l fenlockLease) extend(ctx context.Context) error  { return l.Extend(ctx) }
func (l fenlockLease) release(ctx context.Context) error { return l.Release(ctx) }

// brokenLocker grants everything to everybody, with tokens that grow.
type brokenLocker struct {
	ttl  time.Duration
	last atomic.Uint64
}

func (l *brokenLocker) try(ctx context.Context, _ string) (lease, error) {
	token := max(l.last.Load()+1, uint64(time.Now().UnixMicro()))
	l.last.Store(token)
	return newKeptLease(l.ttl, kept{number: fence.Token(token)}), nil
}

func (l *brokenLocker) acquire(ctx context.Context, name string) (lease, error) {
	return l.try(ctx, name)
}

func (l *brokenLocker) close() error { return nil }
