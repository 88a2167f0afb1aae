package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// listenSeconds is the length of a listener's etcd lease: after so long, and a second
	// or so, the waiters of a process that was killed are gone.
	listenSeconds = 5
	// listenPause is between two renewals, and listenTimeout bounds one.
	listenPause   = 1500 * time.Millisecond
	listenTimeout = time.Second
	// relisten is the pause after something has failed.
	relisten = 200 * time.Millisecond
)

// Listen implements node.Queuer. The client has a key, which is there as long as its
// process is, and which whoever notifies one of its waiters writes to. An error of the
// first attempt is returned at once.
func (n *Node) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return n.errorf("listen", err)
	}
	l := &listener{node: n, client: client, notify: notify, first: make(chan error, 1), poke: make(chan struct{}, 1)}
	n.mu.Lock()
	if n.listeners == nil {
		n.mu.Unlock()
		return n.errorf("listen", engine.ErrClosed)
	}
	n.listeners[client] = l
	n.life.Spawn(l.run)
	n.mu.Unlock()
	select {
	case err := <-l.first:
		return n.errorf("listen", err)
	case <-ctx.Done():
		return n.errorf("listen", ctx.Err())
	}
}

// listener is a client that can be notified.
type listener struct {
	node   *Node
	client string
	notify func(waiter string)
	first  chan error    // the answer to Listen
	poke   chan struct{} // its lease may be gone

	mu    sync.Mutex
	lease clientv3.LeaseID // 0 if it has none, or may have none
}

// listening returns the etcd lease of a client that listens here.
func (n *Node) listening(client string) clientv3.LeaseID {
	n.mu.Lock()
	l := n.listeners[client]
	n.mu.Unlock()
	if l == nil {
		return clientv3.NoLease
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// doubtListeners has all listeners look whether their leases are there.
func (n *Node) doubtListeners() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.listeners {
		l.set(clientv3.NoLease)
		select {
		case l.poke <- struct{}{}:
		default:
		}
	}
}

func (l *listener) set(id clientv3.LeaseID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = id
}

// run has a registration, and a watch on it, until the node is closed. What was missed in
// between is told by an empty waiter.
func (l *listener) run() {
	ctx := l.node.life
	again := false
	for ctx.Err() == nil {
		r, err := l.register(ctx)
		if !again {
			l.first <- err
		}
		if err == nil {
			err = l.serve(ctx, r, again)
			l.set(clientv3.NoLease)
		}
		again = true
		_ = err // requests are told the same
		select {
		case <-time.After(relisten):
		case <-ctx.Done():
		}
	}
}

// registration is a listener's key.
type registration struct {
	lease    clientv3.LeaseID
	revision int64
}

// register writes the key, attached to a new etcd lease.
func (l *listener) register(ctx context.Context) (r registration, err error) {
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	n := l.node
	err = n.pool.repeat(ctx, func(ctx context.Context, _ *member, c *clientv3.Client) (err error) {
		r.lease, err = grant(ctx, c, listenSeconds)
		return err
	})
	if err != nil {
		return r, describe(ctx, err)
	}
	a, err := n.commit(ctx, txn{Then: []clientv3.Op{clientv3.OpPut(n.keys.wake(l.client), "", clientv3.WithLease(r.lease))}})
	if err != nil {
		return r, err
	}
	r.revision = a.Header.Revision
	l.set(r.lease)
	return r, nil
}

var errUnregistered = errors.New("the registration has ended")

// serve watches the key and keeps it, over one member after the other, until it is gone.
func (l *listener) serve(ctx context.Context, r registration, missed bool) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { end(l.keep(ctx, r)) })
	from := r.revision + 1
	for {
		m, moved := l.node.pool.now()
		c, err := m.open(ctx)
		if err == nil {
			over, stop := context.WithCancel(ctx)
			go func() {
				select {
				case <-moved:
				case <-over.Done():
				}
				stop()
			}()
			from, err = l.watch(over, c, from, missed)
			stop()
			missed = true
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, errUnregistered) {
			end(err)
			return err
		}
		select {
		case <-time.After(relisten):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watch tells what is written to the key from a revision on, until it cannot any more,
// and returns the revision to go on from.
func (l *listener) watch(ctx context.Context, c *clientv3.Client, from int64, missed bool) (int64, error) {
	watcher := clientv3.NewWatcher(c)
	defer watcher.Close()
	for a := range watcher.Watch(clientv3.WithRequireLeader(ctx), l.node.keys.wake(l.client), clientv3.WithRev(from), clientv3.WithCreatedNotify()) {
		if a.CompactRevision > 0 {
			// What was written in between is gone; so is the need for it.
			return max(from, a.CompactRevision), a.Err()
		}
		if err := a.Err(); err != nil {
			return from, err
		}
		if a.Created && missed {
			l.notify("")
			missed = false
		}
		for _, e := range a.Events {
			from = e.Kv.ModRevision + 1
			if e.Type == clientv3.EventTypeDelete {
				return from, errUnregistered
			}
			waiter := string(e.Kv.Value)
			if clientOf(waiter) == l.client && rule.CheckPlace(node.Place{Waiter: waiter}) == nil {
				l.node.places.tell(waiter, e.Kv.ModRevision)
				l.notify(waiter)
			}
		}
	}
	return from, fmt.Errorf("the watch has ended: %w", context.Cause(ctx))
}

// keep renews the etcd lease until it is gone.
func (l *listener) keep(ctx context.Context, r registration) error {
	for {
		select {
		case <-time.After(listenPause):
		case <-l.poke:
		case <-ctx.Done():
			return nil
		}
		try, cancel := context.WithTimeout(ctx, listenTimeout)
		m, err := l.node.pool.ready(try)
		if err == nil {
			a, failed := m.keepAlive(try, r.lease)
			switch err = failed; {
			case err != nil && ctx.Err() == nil && hangs(err):
				l.node.pool.leave(m)
			case err == nil && a.TTL <= 0:
				cancel()
				return errUnregistered
			case err == nil:
				l.set(r.lease)
			}
		}
		cancel()
	}
}

// leaveAll makes the waiters of listeners unreachable, as far as that can be done soon.
func leaveAll(n *Node, listeners map[string]*listener) {
	ctx, cancel := context.WithTimeout(n.life, listenTimeout)
	defer cancel()
	for _, l := range listeners {
		l.mu.Lock()
		id := l.lease
		l.mu.Unlock()
		if id == clientv3.NoLease {
			continue
		}
		if m, err := n.pool.ready(ctx); err == nil {
			if c, err := m.open(ctx); err == nil {
				c.Revoke(ctx, id)
			}
		}
	}
}
