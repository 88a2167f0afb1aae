package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// listenSeconds is the length of a listener's etcd lease. If a process is killed, its waiters are
	// gone after that time and a second or so. etcd's library renews it.
	listenSeconds = 5
	// renewTimeout is after how long without a renewal, of which there is one every two
	// seconds, another member is asked.
	renewTimeout = 3 * time.Second
	// leaveTimeout bounds what Close does to make waiters unreachable.
	leaveTimeout = time.Second
	// rewatch is the pause after a watch has failed.
	rewatch = 200 * time.Millisecond
)

// listeners are the clients that listen here.
type listeners struct {
	cluster *cluster
	places  *places

	mu   sync.Mutex
	all  map[string]*listener
	left bool // none registers any more
}

// listen has a client listen. The client has a key, which is there as long as its process is.
// A client that notifies one of its waiters writes there.
func (l *listeners) listen(ctx context.Context, client string, notify func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return err
	}
	own := &listener{listeners: l}
	l.mu.Lock()
	l.all[client] = own
	l.mu.Unlock()
	return engine.Listen(ctx, l.cluster.life, client, notify, own.attend)
}

// listener is a client that can be notified.
type listener struct {
	*engine.Listener
	*listeners
	id atomic.Int64 // of its etcd lease, 0 if it has none, or may have none
}

// lease returns the etcd lease of a client that listens here, or clientv3.NoLease.
func (l *listeners) lease(client string) clientv3.LeaseID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own := l.all[client]; own != nil {
		return clientv3.LeaseID(own.id.Load())
	}
	return clientv3.NoLease
}

// doubt has nothing attached to the leases of listeners until they were renewed.
func (l *listeners) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, own := range l.all {
		own.id.Store(int64(clientv3.NoLease))
	}
}

// attend has a registration, and a watch on it.
func (l *listener) attend(life context.Context, of *engine.Listener) error {
	l.mu.Lock()
	left := l.left
	l.mu.Unlock()
	if left {
		<-life.Done() // Close ends it soon
		return context.Cause(life)
	}
	l.Listener = of
	lease, revision, err := l.register(life)
	if err != nil {
		return err // requests are told the same
	}
	l.id.Store(int64(lease))
	defer l.id.Store(int64(clientv3.NoLease))
	l.Begun()
	return l.serve(life, lease, revision+1)
}

// register writes the key, attached to a new etcd lease, and returns the revision of that.
func (l *listener) register(ctx context.Context) (lease clientv3.LeaseID, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	err = l.cluster.pool.repeat(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
		lease, err = grant(ctx, c, listenSeconds)
		return err
	})
	if err != nil {
		return lease, 0, describe(ctx, err)
	}
	a, err := l.cluster.commit(ctx,
		txn{Then: []clientv3.Op{clientv3.OpPut(l.cluster.keys.wake(l.Client), "", clientv3.WithLease(lease))}})
	if err != nil {
		return lease, 0, err
	}
	return lease, a.Header.Revision, nil
}

var errUnregistered = errors.New("the registration has ended")

// serve watches the key from a revision on, and keeps it, over one member after the other, until it
// is gone.
func (l *listener) serve(ctx context.Context, lease clientv3.LeaseID, from int64) error {
	for first := true; ctx.Err() == nil; first = false {
		m, moved := l.cluster.pool.now()
		if c, err := m.open(ctx); err == nil {
			over, stop := context.WithCancelCause(ctx)
			lessor := clientv3.NewLease(c)
			go func() { stop(l.keep(over, lessor, lease, m, moved)) }()
			from, err = l.watch(over, c, from, !first)
			gone := errors.Is(err, errUnregistered) || errors.Is(context.Cause(over), errUnregistered)
			stop(nil)
			lessor.Close()
			if gone {
				return errUnregistered
			}
		} else {
			l.cluster.pool.leave(m)
		}
		engine.Pause(ctx, rewatch)
	}
	return ctx.Err()
}

// keep has etcd's library renew the lease, until that is gone or another member is asked.
func (l *listener) keep(ctx context.Context, lessor clientv3.Lease, id clientv3.LeaseID, m *member,
	moved <-chan struct{}) error {
	renewed, err := lessor.KeepAlive(ctx, id)
	if err != nil {
		return errUnregistered
	}
	for {
		select {
		case _, is := <-renewed:
			if !is {
				return errUnregistered
			}
			l.id.Store(int64(id))
		case <-time.After(renewTimeout):
			l.cluster.pool.leave(m)
		case <-moved:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// watch tells what is written to the key from a revision on, until it cannot any more,
// and returns the revision to go on from.
func (l *listener) watch(ctx context.Context, c *clientv3.Client, from int64, missed bool) (int64, error) {
	watcher := clientv3.NewWatcher(c)
	defer watcher.Close()
	for a := range watcher.Watch(clientv3.WithRequireLeader(ctx), l.cluster.keys.wake(l.Client), clientv3.WithRev(from),
		clientv3.WithCreatedNotify()) {
		if a.CompactRevision > 0 {
			// What was written in between is gone; so is the need for it.
			return max(from, a.CompactRevision), a.Err()
		}
		if err := a.Err(); err != nil {
			return from, err
		}
		if a.Created && missed {
			l.Tell("")
			missed = false
		}
		for _, e := range a.Events {
			from = e.Kv.ModRevision + 1
			if e.Type == clientv3.EventTypeDelete {
				return from, errUnregistered
			}
			waiter := string(e.Kv.Value)
			if engine.ClientOf(waiter) == l.Client && rule.CheckPlace(node.Place{Waiter: waiter}) == nil {
				l.places.tell(waiter, e.Kv.ModRevision)
				l.Tell(waiter)
			}
		}
	}
	return from, fmt.Errorf("the watch has ended: %w", context.Cause(ctx))
}

// leave makes the waiters of all listeners unreachable, as far as that can be done soon.
func (l *listeners) leave() {
	ctx, cancel := context.WithTimeout(l.cluster.life, leaveTimeout)
	defer cancel()
	l.mu.Lock()
	l.left = true
	all := slices.Collect(maps.Values(l.all))
	l.mu.Unlock()
	for _, own := range all {
		id := clientv3.LeaseID(own.id.Load())
		if id == clientv3.NoLease {
			continue
		}
		if _, c, err := l.cluster.pool.ready(ctx); err == nil {
			c.Revoke(ctx, id)
		}
	}
}
