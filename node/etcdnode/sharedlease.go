package etcdnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node/clock"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// slack is by how much an etcd lease is longer than the TTL that it is for. It is
	// the age that its last renewal may have when a transaction has been carried out.
	slack = time.Second
	// renewAfter is the age of the last renewal from which on a transaction is
	// accompanied by one.
	renewAfter = slack / 4
	// rotation is for how long keys are attached to one etcd lease. A transaction that is
	// under way for longer, in a member that was stopped, say, fails for want of it.
	rotation = 30 * time.Second
)

// sharedLease is an etcd lease, to which a process attaches the keys of its locks with
// one TTL. Nothing keeps it alive but the operations on these locks.
type sharedLease struct {
	id    clientv3.LeaseID
	life  time.Duration // what etcd gives it: at least TTL + slack
	since time.Duration // when it was asked for; these are on node/clock

	mu      sync.Mutex
	renewed time.Duration // when the last renewal that has succeeded was asked for
	term    uint64        // raft's, in which that was
	dead    bool
	renewal *renewal
}

// renewal is one that is under way.
type renewal struct {
	done chan struct{}
	err  error
}

// sharedLeases are those of a node, by their length in seconds.
type sharedLeases struct {
	pool *pool
	life context.Context

	mu       sync.Mutex
	current  map[int64]*sharedLease
	granting map[int64]*granting
}

type granting struct {
	done  chan struct{}
	lease *sharedLease
	err   error
}

// seconds is the length of the etcd lease for a TTL: etcd knows whole ones.
func seconds(ttl time.Duration) int64 {
	return int64((ttl + slack + time.Second - 1) / time.Second)
}

// grantTimeout bounds a grant, which goes on when the request that began it has given up.
const grantTimeout = 5 * time.Second

// get returns an etcd lease for a TTL, to attach a key to now.
func (s *sharedLeases) get(ctx context.Context, ttl time.Duration) (*sharedLease, error) {
	class := seconds(ttl)
	s.mu.Lock()
	if l := s.current[class]; l != nil && l.usable() {
		s.mu.Unlock()
		return l, nil
	}
	g := s.granting[class]
	if g == nil {
		g = &granting{done: make(chan struct{})}
		s.granting[class] = g
		go func() {
			ctx, cancel := context.WithTimeout(s.life, grantTimeout)
			defer cancel()
			g.lease, g.err = s.grant(ctx, class)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.granting, class)
			if g.err == nil {
				s.current[class] = g.lease
			}
			close(g.done)
		}()
	}
	s.mu.Unlock()
	select {
	case <-g.done:
		return g.lease, g.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// grant asks etcd for one. It is asked again where the request may have been lost: then a
// lease is left that nobody uses, and ends.
func (s *sharedLeases) grant(ctx context.Context, class int64) (l *sharedLease, err error) {
	err = s.pool.repeat(ctx, func(ctx context.Context, _ *member, c *clientv3.Client) error {
		asked := clock.Now()
		a, err := c.Grant(ctx, class)
		if err != nil {
			return fmt.Errorf("asking for an etcd lease: %w", err)
		}
		if a.TTL < class {
			return fmt.Errorf("an etcd lease of %d s was asked for, and one of %d s granted", class, a.TTL)
		}
		l = &sharedLease{id: a.ID, life: time.Duration(a.TTL) * time.Second, since: asked, renewed: asked, term: a.RaftTerm}
		return nil
	})
	return l, err
}

// usable reports whether keys may be attached to it.
func (l *sharedLease) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := clock.Now()
	return !l.dead && now < l.since+rotation && now < l.renewed+l.life-l.life/8
}

// stale reports whether it ought to be renewed beside the next transaction.
func (l *sharedLease) stale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return clock.Now() > l.renewed+renewAfter
}

// kill has it used no more.
func (l *sharedLease) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

// covers reports whether a key that a transaction has attached to the lease, asked for at
// sent and answered by now in this term of raft's, lives for ttl from now on at least,
// unless it is removed by name.
//
// A renewal is carried out by whoever believes that it leads the cluster, without asking
// the others. One that was deposed may believe so for a moment, and the new leader knows
// nothing of what it renews: but that gave each lease its whole length when it was
// elected. etcd answers with the term that the member was in before the renewal, and a
// transaction with one that is at least the term in which it was committed. So if the
// renewal's is not the smaller one, nobody was elected to a later term before the
// transaction was sent: the lease lasts for its length from the earlier of the two.
func (l *sharedLease) covers(sent time.Duration, ttl time.Duration, term uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead && l.term >= term && clock.Now()+ttl <= min(l.renewed, sent)+l.life
}

// renew has it begin anew. Those who ask at once share a request, that was sent after
// the first of them has asked.
func (s *sharedLeases) renew(ctx context.Context, l *sharedLease) error {
	l.mu.Lock()
	r := l.renewal
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		l.renewal = r
		go func() {
			ctx, cancel := context.WithTimeout(s.life, grantTimeout)
			defer cancel()
			err := s.renewOnce(ctx, l)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.renewal, r.err = nil, err
			close(r.done)
		}()
	}
	l.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sharedLeases) renewOnce(ctx context.Context, l *sharedLease) error {
	return s.pool.repeat(ctx, func(ctx context.Context, m *member, _ *clientv3.Client) error {
		asked := clock.Now()
		a, err := m.keepAlive(ctx, l.id)
		if err != nil {
			return fmt.Errorf("renewing the etcd lease: %w", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.TTL <= 0 {
			l.dead = true
			return rpctypes.ErrLeaseNotFound
		}
		if asked > l.renewed {
			l.renewed, l.term = asked, a.Header.RaftTerm
		}
		return nil
	})
}
