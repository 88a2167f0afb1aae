package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/engine"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// standing is that the store was found to vote.
type standing struct {
	mod    int64  // the revision of its mark, which each write compares; 0 if it has none
	server string // as in admit.Facts
	memory string // which each write compares, too: revisions count anew in a cluster that was made anew
	terms  admit.Terms
	dials  int64 // as in cluster, from before it was found
	lives  int   // as in voting
}

// unchanged is true as long as the mark is there, of this memory.
func (s *standing) unchanged(k keys) []clientv3.Cmp {
	return []clientv3.Cmp{same(k.meta(), s.mod), clientv3.Compare(clientv3.Value(k.stamp()), "=", s.memory)}
}

// voting is what a node knows of its store: whether it votes, and how far it was.
type voting struct {
	*cluster
	admission *admit.Admission

	mu       sync.Mutex
	current  *standing
	looks    engine.Shared[admit.Facts]
	answers  uint64           // the cluster that does; 0 if any may
	revision int64            // the largest that it has answered
	others   map[uint64]int64 // the same of clusters that answered before
	memories map[string]bool  // that were read here; true: known not to be whole any more
	lives    int              // how often they were lost, or another cluster answered
	used     bool             // it voted before, whatever its operator says
}

// lookTimeout bounds what is done in the background for later operations.
const lookTimeout = 5 * time.Second

// stand returns that the store votes, or what it is without voting. The error is of a request that
// was not sent.
func (v *voting) stand(ctx context.Context) (*standing, admit.Facts, error) {
	if st := v.now(); st != nil {
		return st, admit.Facts{}, nil
	}
	f, over, err := v.looks.Begin(v.life, v.stare).Wait(ctx)
	if over {
		return v.now(), f, err
	}
	err = fmt.Errorf("the cluster is still being looked at: %w", err)
	if problem := v.pool.lately(); problem != nil {
		err = fmt.Errorf("%w; %w", err, problem)
	}
	return nil, f, err
}

func (v *voting) stare() (admit.Facts, error) {
	ctx, cancel := context.WithTimeout(v.life, lookTimeout)
	defer cancel()
	return v.Facts(ctx)
}

// now returns that the store votes, or nil if that is not known.
func (v *voting) now() *standing {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.current
}

// votes takes that the store was found to vote.
func (v *voting) votes(s *standing) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.memories[s.memory] { // something was heard meanwhile
		return
	}
	if v.current == nil && len(v.pool.members) > 1 {
		v.life.Spawn(v.preferLeader)
	}
	v.current, v.used = s, true
}

// forget has the store looked at again.
func (v *voting) forget(s *standing) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.current == s {
		v.current = nil
	}
}

// stands makes sure that what was promised by a standing counts, after it was carried out. The
// client may have heard meanwhile that the store was set back; what it heard of revisions before
// does not count any more then. And a new connection may lead to a store that was: the store is
// looked at behind the promise.
func (v *voting) stands(ctx context.Context, s *standing) error {
	if v.dials.Load() != s.dials {
		v.forget(s)
		now := v.now()
		if now == nil || v.dials.Load() != now.dials {
			if _, err := v.Facts(ctx); err != nil {
				// the promise was sent, whatever that error is
				return fmt.Errorf("it is connected to anew, and was not found to be what it was: %v", err)
			}
			now = v.now()
		}
		if now == nil || now.mod != s.mod || now.memory != s.memory {
			return errors.New("it is connected to anew, and is not what it was any more")
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lives != s.lives {
		return errors.New("it was heard meanwhile that the cluster was set back, or is another one")
	}
	return nil
}

// meet takes marks that were read, unless a loss was heard of meanwhile.
func (v *voting) meet(l *looked, cluster uint64, lives int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lives != lives {
		return errors.New("the cluster has changed while it was looked at")
	}
	if floor := v.others[cluster]; l.revision < floor { // it has answered before, and was set back meanwhile
		v.lose()
		return setBack(floor, l.revision)
	}
	v.answers, v.revision = cluster, max(v.revision, l.revision)
	for _, k := range []*kept{&l.meta, &l.notice} {
		if k.mark != nil {
			k.lost = v.memories[k.Memory]
			v.memories[k.Memory] = k.lost
		}
	}
	return nil
}

// floor is the revision that answers to what is sent from now on must have.
func (v *voting) floor() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.revision
}

// hear looks at the header of an answer. An answer of another cluster does not count, nor does one
// of a store that has been set back. The request may have been carried out there.
func (v *voting) hear(h *etcdserverpb.ResponseHeader, floor int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	other := v.answers != 0 && h.ClusterId != v.answers
	if !other && h.Revision >= floor {
		if v.answers != 0 { // else it may be late, of another than the next look finds
			v.revision = max(v.revision, h.Revision)
		}
		return nil
	}
	heard := floor > v.revision+1 // when it had been sent
	switch {
	case other && !heard: // the one that answered before has lost nothing by that
		v.others[v.answers] = v.revision
		v.begin()
	case !heard:
		v.lose()
	}
	if other {
		return errors.New("another cluster answers than before: whether it may vote has to be found out")
	}
	return setBack(floor, h.Revision)
}

func setBack(from, to int64) error {
	return fmt.Errorf("the cluster has been set back from revision %d to %d: it has forgotten what happened since", from,
		to)
}

// lose takes that what was read here is not whole any more. The caller has locked mu.
func (v *voting) lose() {
	clear(v.others)
	for memory := range v.memories {
		v.memories[memory] = true
	}
	v.begin()
}

// begin has it looked at who answers. The caller has locked mu.
func (v *voting) begin() { v.current, v.answers, v.revision, v.lives = nil, 0, 0, v.lives+1 }

// oneCluster makes sure, before a store that does not vote is written to, that no member leads to
// another cluster. Clients of that cluster would not meet the clients of this one.
func (v *voting) oneCluster(ctx context.Context, cluster string) error {
	n := v.cluster
	if n.given {
		return nil
	}
	errs := make([]error, len(n.pool.members))
	var asked sync.WaitGroup
	for i, m := range n.pool.members {
		asked.Go(func() {
			s, err := m.answers(ctx)
			if err == nil && clusterID(s.Header) != cluster {
				errs[i] = engine.Misconfiguredf("the member %s belongs to another cluster (%s) than the one that was asked (%s): all addresses of a node have to be members of one cluster", m.address, clusterID(s.Header), cluster)
			}
		})
	}
	asked.Wait()
	return errors.Join(errs...)
}

func clusterID(h *etcdserverpb.ResponseHeader) string { return strconv.FormatUint(h.ClusterId, 16) }

// preferLeader has the member asked that leads the others: they would pass on to it what
// they are asked. No request waits for it.
func (v *voting) preferLeader() {
	n := v.cluster
	ctx, cancel := context.WithTimeout(n.life, lookTimeout)
	defer cancel()
	asked, _ := n.pool.now()
	leads := func(m *member) (is, known bool) {
		c, err := m.connected(ctx)
		if err != nil {
			return false, false
		}
		a, err := askStatus(ctx, c)
		return err == nil && a.Leader == a.Header.MemberId, err == nil
	}
	if is, known := leads(asked); is || !known {
		return
	}
	for _, m := range n.pool.members {
		if is, _ := leads(m); is {
			n.pool.prefer(m, asked)
			return
		}
	}
}
