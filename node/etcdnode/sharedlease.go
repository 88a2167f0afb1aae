package etcdnode

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node/clock"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// window is by how much an etcd lease is longer than the TTL that it is for, at least.
	// Keys are attached to it for as long, but for slack.
	window = 2 * time.Second
	// slack is how long a transaction may take after that.
	slack = time.Second
)

// sharedLease is an etcd lease, to which a process attaches the keys that it writes within
// a second, for locks with one TTL. The next extension attaches the key to another.
//
// It is never renewed. etcd's renewals cannot be relied on. Without asking the others, a member
// that believes that it leads carries them out, or ends leases that were not renewed with it. A
// leader that was stopped, and deposed meanwhile, believes so for a moment when it goes on. That is
// etcd issue 15247, which is mended but for that moment. When a lease was granted, all members
// know. So a member that leads, or thinks so, does not end the lease before its length has passed
// since then, and since we asked.
type sharedLease struct {
	id   clientv3.LeaseID
	life time.Duration // what etcd gives it
	sent time.Duration // before it was asked for, on node/clock
	dead atomic.Bool   // etcd does not know it any more
}

// covers reports whether a key that is attached to the lease lives for ttl from now on at
// least, unless it is removed by name.
func (l *sharedLease) covers(ttl time.Duration) bool {
	return !l.dead.Load() && clock.Now()+ttl <= l.sent+l.life
}

// seconds is the length of the etcd lease for a TTL: etcd knows whole ones.
func seconds(ttl time.Duration) int64 {
	return int64((ttl + window + time.Second - 1) / time.Second)
}

// sharedLeases are those of a node that keys are attached to now, by their length in
// seconds.
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

// grantTimeout bounds a grant, which goes on when the request that began it has given up.
const grantTimeout = 5 * time.Second

// get returns an etcd lease for a TTL, to attach a key to now. The next one is asked for
// in time, so that who comes often waits for none.
func (s *sharedLeases) get(ctx context.Context, ttl time.Duration) (*sharedLease, error) {
	class := seconds(ttl)
	s.mu.Lock()
	l := s.current[class]
	if l != nil && l.covers(ttl+(window+slack)/2) {
		s.mu.Unlock()
		return l, nil
	}
	g := s.granting[class]
	if g == nil {
		g = &granting{done: make(chan struct{})}
		s.granting[class] = g
		go s.grantFor(g, class)
	}
	s.mu.Unlock()
	if l != nil && l.covers(ttl+slack) {
		return l, nil
	}
	select {
	case <-g.done:
		return g.lease, g.err
	case <-ctx.Done():
		return nil, fmt.Errorf("asking for an etcd lease: %w", ctx.Err())
	}
}

func (s *sharedLeases) grantFor(g *granting, class int64) {
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
}

// grant asks etcd for one. It is asked again where the request may have been lost: then an unused
// lease is left, and ends.
func (s *sharedLeases) grant(ctx context.Context, class int64) (l *sharedLease, err error) {
	err = s.pool.repeat(ctx, func(ctx context.Context, c *clientv3.Client) error {
		sent := clock.Now()
		id, err := grant(ctx, c, class)
		l = &sharedLease{id: id, life: time.Duration(class) * time.Second, sent: sent}
		return err
	})
	return l, err
}

// grant asks for an etcd lease of so many seconds at least.
func grant(ctx context.Context, c *clientv3.Client, seconds int64) (clientv3.LeaseID, error) {
	a, err := c.Grant(ctx, seconds)
	switch {
	case err != nil:
		return clientv3.NoLease, fmt.Errorf("asking for an etcd lease: %w", err)
	case a.ID == clientv3.NoLease: // what is attached to that never ends
		return clientv3.NoLease, errNonsense
	case a.TTL < seconds:
		return clientv3.NoLease, fmt.Errorf("an etcd lease of %d s was asked for, and one of %d s granted", seconds, a.TTL)
	}
	return a.ID, nil
}
