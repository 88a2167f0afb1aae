package etcdnode

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// listenSeconds is the length of a listener's etcd lease. If a process is killed, its waiters are
	// passed over after that time and a second or so. etcd's library renews it.
	listenSeconds = 5
	// renewTimeout is after how long without a renewal, of which there is one every two
	// seconds, another member is asked.
	renewTimeout = 3 * time.Second
	// leaveTimeout bounds what Close does to make waiters unreachable.
	leaveTimeout = time.Second
	// rewatch is the pause after a watch has failed.
	rewatch = 200 * time.Millisecond
)

var errUnregistered = errors.New("the registration has ended")

// Attend implements cas.Teller. The client has a key, which is there as long as its process is, and
// a watch on it. The transaction that gives a waiter a name, or reserves it, writes there.
func (s *store) Attend(ctx context.Context, h *cas.Hearing) error {
	lease, revision, err := s.register(ctx, h.Client())
	if err != nil {
		return err // requests are told the same
	}
	h.Begun(0)
	defer func() {
		if s.life.Err() != nil {
			s.leave(lease)
		}
	}()
	for from := revision + 1; ctx.Err() == nil && err == nil; { // over one member after the other
		m, moved := s.pool.now()
		if c, failed := m.open(ctx); failed == nil {
			from, err = s.listen(ctx, h, listening{m, c, moved, lease, from})
		} else {
			s.pool.leave(m)
		}
		engine.Pause(ctx, rewatch)
	}
	return err
}

// register writes the key, attached to a new etcd lease, and returns the revision of that.
func (s *store) register(ctx context.Context, client string) (lease clientv3.LeaseID, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	err = s.pool.repeat(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
		lease, err = grant(ctx, c, listenSeconds)
		return err
	})
	if err != nil {
		return lease, 0, describe(ctx, err)
	}
	o, err := s.commit(ctx, txn{Then: []clientv3.Op{clientv3.OpPut(s.keys.wake(client), "", clientv3.WithLease(lease))}})
	if err != nil {
		return lease, 0, err
	}
	return lease, o.Header.Revision, nil
}

// listening is a registration, and the member over which it is kept.
type listening struct {
	member *member
	client *clientv3.Client
	moved  <-chan struct{}
	lease  clientv3.LeaseID
	from   int64
}

// listen tells what is written to the key, until the watch fails or another member is asked. It
// returns the revision to go on from. The error is that the registration is gone.
func (s *store) listen(ctx context.Context, h *cas.Hearing, l listening) (from int64, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	lessor, watcher := clientv3.NewLease(l.client), clientv3.NewWatcher(l.client)
	defer func() { stop(nil); watcher.Close(); lessor.Close() }()
	go func() { stop(s.keep(ctx, lessor, l)) }()
	for a := range watcher.Watch(clientv3.WithRequireLeader(ctx), s.keys.wake(h.Client()), clientv3.WithRev(l.from)) {
		if a.CompactRevision > 0 { // what was written in between is gone
			h.Tell("")
			return max(l.from, a.CompactRevision), nil
		}
		for _, e := range a.Events {
			if l.from = e.Kv.ModRevision + 1; e.Type == clientv3.EventTypeDelete {
				return l.from, errUnregistered
			}
			for text := range strings.Lines(string(e.Kv.Value)) {
				h.Tell(strings.TrimSuffix(text, "\n"))
			}
		}
		if a.Err() != nil {
			break
		}
	}
	if errors.Is(context.Cause(ctx), errUnregistered) {
		err = errUnregistered
	}
	return l.from, err
}

// keep has etcd's library renew the lease, until that is gone or another member is asked.
func (s *store) keep(ctx context.Context, lessor clientv3.Lease, l listening) error {
	renewed, err := lessor.KeepAlive(ctx, l.lease)
	if err != nil {
		return errUnregistered
	}
	for {
		select {
		case _, is := <-renewed:
			if !is {
				return errUnregistered
			}
		case <-time.After(renewTimeout):
			s.pool.leave(l.member)
			return nil
		case <-l.moved:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// leave makes a client unreachable, if that can be done soon. The node's life has ended.
func (s *store) leave(lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if _, c, err := s.pool.ready(ctx); err == nil {
		c.Revoke(ctx, lease)
	}
}
