package library

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/clock"
)

// Locker is a lock library, as one process uses it.
type Locker interface {
	TryAcquire(ctx context.Context, name string) (Lease, error)
	Acquire(ctx context.Context, name string) (Lease, error) // waits until ctx is done
	Close() error
}

// Lease is a lock that is held.
type Lease interface {
	Token() fence.Token       // 0 if the library has none
	Remaining() time.Duration // of the validity
	Context() context.Context // ends with the lock
	Extend(ctx context.Context) error
	Release(ctx context.Context) error
}

// The libraries.
const (
	Fenlock   = "fenlock"
	Redsync   = "redsync"
	Redislock = "redislock"
	Broken    = "broken" // locks nothing, for the checkers to notice
)

// All are the libraries that can be used.
var All = []string{Fenlock, Redsync, Redislock}

// Config is how a library is to be used.
type Config struct {
	Library     string
	URLs        []string // of the nodes
	TTL, MaxTTL time.Duration
	NodeTimeout time.Duration // for a request to a node
	Label       string        // of the holder, for libraries that tell who it is
	New         bool          // the servers were never used
	// Missed is told of a node, from 0, that did not do what fenlock needs of it: see
	// watched. It may be nil, and is called from many goroutines.
	Missed func(node int) `json:"-"`
}

// Open opens a library.
func Open(c Config) (Locker, error) {
	switch c.Library {
	case Fenlock:
		return openFenlock(c)
	case Redsync:
		return openRedsync(c)
	case Redislock:
		return openRedislock(c)
	case Broken:
		return &brokenLocker{ttl: c.TTL, label: c.Label}, nil
	}
	return nil, fmt.Errorf("unknown library %q: there are %s", c.Library, strings.Join(All, ", "))
}

type fenlockLocker struct{ *fenlock.Locker }

func openFenlock(c Config) (Locker, error) {
	config := fenlock.Config{
		TTL: c.TTL, MaxTTL: c.MaxTTL, NodeTimeout: c.NodeTimeout, Label: c.Label, NewServers: c.New,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if c.New {
		config.Logger = nil // which would tell what is known
	}
	for i, url := range c.URLs {
		n, err := OpenNode(url)
		if err != nil {
			return nil, err
		}
		if c.Missed != nil {
			n = watch(n, c.NodeTimeout*9/10, func() { c.Missed(i) })
		}
		config.Nodes = append(config.Nodes, n)
	}
	l, err := fenlock.New(config)
	return fenlockLocker{l}, err
}

func (l fenlockLocker) TryAcquire(ctx context.Context, name string) (Lease, error) {
	return l.Locker.TryAcquire(ctx, name)
}

func (l fenlockLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	return l.Locker.Acquire(ctx, name)
}

// brokenLocker grants everything to every client, with tokens that grow.
type brokenLocker struct {
	ttl   time.Duration
	label string
	last  atomic.Uint64
	leads sync.Map // by name: the token
}

func (l *brokenLocker) TryAcquire(ctx context.Context, _ string) (Lease, error) {
	token := max(l.last.Load()+1, uint64(time.Now().UnixMicro()))
	l.last.Store(token)
	until := func(context.Context) (time.Duration, error) { return clock.Now() + l.ttl, nil }
	return newRenewed(l.ttl, rival{
		token: fence.Token(token), until: clock.Now() + l.ttl, extend: until,
		release: func(context.Context) error { return nil },
	}), nil
}

func (l *brokenLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	return l.TryAcquire(ctx, name)
}

func (l *brokenLocker) Close() error { return nil }
