package etcdnode

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is an etcd lease, and a key that is attached to it. What a process writes within a second
// belongs to one session, as package cas has it: when the key is gone, that is over. The next
// extension of a lock belongs to another session.
//
// It is never renewed. etcd's renewals cannot be relied on. Without asking the others, a member
// that believes that it leads carries them out, or ends leases that were not renewed with it. A
// leader that was stopped, and deposed meanwhile, believes so for a moment when it goes on. That is
// etcd issue 15247, which is mended but for that moment. When a lease was granted, all members
// know. So a member that leads, or thinks so, does not end the lease before its length has passed
// since then, and since we asked.
type session struct {
	id   string
	ends time.Duration // not before that, on node/clock
	gone atomic.Bool   // its key is not there any more
}

// window is by how much a session is longer than what it is for, at least.
const window = 2 * time.Second

// covers reports whether a session lasts for so long from now on at least.
func (s *session) covers(need time.Duration) bool {
	return !s.gone.Load() && clock.Now()+need <= s.ends
}

// seconds is the length of the session for a need: etcd knows whole ones.
func seconds(need time.Duration) int64 {
	return int64((need + window + time.Second - 1) / time.Second)
}

// sessions are those of a process that are written in now, by their length in seconds.
type sessions struct {
	cluster *cluster

	mu       sync.Mutex
	current  map[int64]*session
	granting map[int64]*engine.Shared[*session]
}

const (
	// grantTimeout bounds a grant, which goes on when the request that began it has given up.
	grantTimeout = 5 * time.Second
	// slack is how long a transaction may take that was decided on, and early when the next session
	// is asked for.
	slack = time.Second / 2
	early = 5 * time.Second / 4
)

// get returns a session for what lasts so long from now on. The next one is asked for in time, so
// that a client that comes often waits for none. What is short may be in a longer one.
func (s *sessions) get(ctx context.Context, need time.Duration) (*session, error) {
	for until := clock.Now() + need; ; {
		l, g := s.pick(need)
		if l != nil {
			return l, nil
		}
		l, over, err := g.Wait(ctx)
		switch {
		case !over:
			return nil, fmt.Errorf("asking for an etcd lease: %w", err)
		case err != nil || l.ends >= until: // else another request has asked for it, long before this one
			return l, err
		}
	}
}

// pick returns a session, or what is asked for.
func (s *sessions) pick(need time.Duration) (*session, *engine.Underway[*session]) {
	class := seconds(need)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.current[class]
	if need <= rule.ReservationTTL && (l == nil || !l.covers(need+slack)) {
		for _, other := range s.current {
			if other.covers(need + slack) {
				return other, nil
			}
		}
	}
	if l != nil && l.covers(need+early) {
		return l, nil
	}
	if s.granting[class] == nil {
		s.granting[class] = new(engine.Shared[*session])
	}
	g := s.granting[class].Begin(s.cluster.life, func() (*session, error) { return s.grant(class) })
	if l != nil && l.covers(need+slack) {
		return l, nil
	}
	return nil, g
}

// grant begins a session, which is written in from then on.
func (s *sessions) grant(class int64) (*session, error) {
	ctx, cancel := context.WithTimeout(s.cluster.life, grantTimeout)
	defer cancel()
	l, err := s.begin(ctx, class)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current[class] = l
	}
	return l, err
}

// begin makes a session. It is asked again where a request may have been lost: then an unused lease
// is left, and ends.
func (s *sessions) begin(ctx context.Context, class int64) (l *session, err error) {
	err = s.cluster.pool.repeat(ctx, func(ctx context.Context, c *clientv3.Client) error {
		sent := clock.Now()
		id, err := grant(ctx, c, class)
		if err != nil {
			return err
		}
		l = &session{id: strconv.FormatInt(int64(id), 16), ends: sent + time.Duration(class)*time.Second}
		put := clientv3.OpPut(s.cluster.keys.session(l.id), "", clientv3.WithLease(id))
		_, err = txn{Then: []clientv3.Op{put}}.send(ctx, clientv3.NewKV(c))
		return err
	})
	return l, describe(ctx, err)
}

// ended asks which sessions have ended: what was written in them is over. The key of each was there
// when that was written. What another cluster says meanwhile, or one that was set back, is nothing.
func (c *cluster) ended(ctx context.Context, memory string, ids []string) (ended []bool, err error) {
	st := c.voting.now()
	if st == nil || st.memory != memory {
		return nil, cas.ErrConflict
	}
	for len(ids) > len(ended) {
		var gets []clientv3.Op
		for _, id := range ids[len(ended):min(len(ids), len(ended)+atOnce)] {
			gets = append(gets, clientv3.OpGet(c.keys.session(id), clientv3.WithCountOnly()))
		}
		o, err := c.read(ctx, gets...)
		if err != nil {
			return nil, err
		}
		for _, got := range responses(o) {
			ended = append(ended, got.Count == 0)
		}
	}
	if c.voting.stands(ctx, st) != nil {
		return nil, cas.ErrConflict
	}
	return ended, nil
}
