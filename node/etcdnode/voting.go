package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// admission is that a store was found to remember what was promised.
type admission struct {
	metaMod int64 // the revision of its mark, which each operation compares
	meta    meta
}

// group is a quorum group, with its nodes as clients name them.
type group struct {
	node.Group
	members []string
	pure    bool // all are etcd clusters, which name each other in one way
}

// alone stands for the members of a group that the cluster is all of.
const alone = "alone"

// voting answers whether the store that a node leads to may vote.
type voting struct {
	node *Node

	mu       sync.Mutex
	joined   *group
	earlier  []*Node // nodes of the group before this one
	current  *admission
	cluster  uint64 // that answers; 0 if any may
	revision int64  // the largest that it has answered
	lost     string // a memory that is known not to be whole any more
	known    bool   // it was admitted before, whatever its operator says
	looking  *looking
}

// looking is a look at the store, which outlives the request that began it.
type looking struct {
	done   chan struct{}
	found  *admission
	detail string
	err    error
	until  time.Time // for as long it is not repeated
}

// lookTimeout bounds a look, and lookPause is between two that found nothing.
const (
	lookTimeout = 5 * time.Second
	lookPause   = 200 * time.Millisecond
)

// admitted returns the admission of the store, or nil and why it is out.
func (v *voting) admitted(ctx context.Context) (*admission, string, error) {
	v.mu.Lock()
	if v.current != nil {
		defer v.mu.Unlock()
		return v.current, "", nil
	}
	l := v.looking
	if l == nil || over(l.done) && time.Now().After(l.until) {
		l = &looking{done: make(chan struct{})}
		v.looking = l
		err := v.node.spawn(func() {
			ctx, cancel := context.WithTimeout(v.node.life, lookTimeout)
			defer cancel()
			l.found, l.detail, l.err = v.lookAndAdmit(ctx)
			v.mu.Lock()
			defer v.mu.Unlock()
			if l.found != nil {
				v.current, v.known = l.found, true
				if len(v.node.pool.members) > 1 {
					v.node.spawn(v.preferLeader)
				}
			} else if l.err == nil {
				l.until = time.Now().Add(lookPause)
			}
			close(l.done)
		})
		if err != nil {
			v.looking = nil
			v.mu.Unlock()
			return nil, "", node.NotSent(err)
		}
	}
	v.mu.Unlock()
	select {
	case <-l.done:
		return l.found, l.detail, node.NotSent(l.err)
	case <-ctx.Done():
		err := fmt.Errorf("the cluster is still being looked at: %w", ctx.Err())
		if problem := v.node.pool.lately(); problem != nil {
			err = fmt.Errorf("%w; %w", err, problem)
		}
		return nil, "", node.NotSent(err)
	}
}

// preferLeader has the member asked that leads the others: they would pass on to it what
// they are asked. Nobody waits for it.
func (v *voting) preferLeader() {
	n := v.node
	ctx, cancel := context.WithTimeout(n.life, lookTimeout)
	defer cancel()
	asked, _ := n.pool.now()
	leads := func(m *member) (is, known bool) {
		if m.connected(ctx) != nil {
			return false, false
		}
		c, err := m.open(ctx)
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

func over(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// forget has the store looked at again.
func (v *voting) forget(a *admission) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.current == a {
		v.current = nil
	}
}

// floor is the revision that answers to what is sent from now on must have.
func (v *voting) floor() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.revision
}

// hear looks at the header of an answer. One of another cluster does not count, nor one
// of a store that has been set back: what was asked for may have been carried out there.
func (v *voting) hear(h *etcdserverpb.ResponseHeader, floor int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	other := v.cluster != 0 && h.ClusterId != v.cluster
	if !other && h.Revision >= floor {
		v.revision = max(v.revision, h.Revision)
		return nil
	}
	if v.current != nil {
		v.lost = v.current.meta.Memory
	}
	v.current, v.cluster, v.revision = nil, 0, 0
	if other {
		return errors.New("another cluster answers than before: whether it may vote has to be found out")
	}
	return fmt.Errorf("the cluster has been set back from revision %d to %d: it has forgotten what happened since", floor, h.Revision)
}

// facts reads what there is to know of the store. What the member says of raft comes
// after the rest, so it is not less than what was written there.
func (v *voting) facts(ctx context.Context) (f facts, err error) {
	n := v.node
	var a outcome
	var st *clientv3.StatusResponse
	err = n.pool.repeat(ctx, func(ctx context.Context, _ *member, c *clientv3.Client) (err error) {
		floor := v.floor()
		a, err = txn{Then: []clientv3.Op{clientv3.OpGet(n.keys.meta()), clientv3.OpGet(n.keys.notice()),
			clientv3.OpGet(n.keys.quarantine()), clientv3.OpGet(n.keys.seen())}}.send(ctx, clientv3.NewKV(c))
		if err == nil {
			err = v.hear(a.Header, floor)
		}
		if err == nil {
			st, err = askStatus(ctx, c)
		}
		return err
	})
	if err != nil {
		return f, describe(ctx, err)
	}
	f.cluster, f.term = strconv.FormatUint(a.Header.ClusterId, 16), a.Header.RaftTerm
	f.index, f.status = st.RaftAppliedIndex, st
	if st.IsLearner {
		return f, describe(ctx, rpctypes.ErrGRPCNotSupportedForLearner)
	}
	got := responses(a.TxnResponse, 0)
	if kvs := got[0].Kvs; len(kvs) > 0 {
		f.meta, f.metaMod = new(meta), kvs[0].ModRevision
		if err := decode(kvs[0], f.meta, func() int { return f.meta.Format }); err != nil {
			return f, err
		}
	}
	if kvs := got[1].Kvs; len(kvs) > 0 {
		f.notice, f.noticeMod = new(notice), kvs[0].ModRevision
		if err := decode(kvs[0], f.notice, func() int { return f.notice.Format }); err != nil {
			return f, err
		}
	}
	if kvs := got[2].Kvs; len(kvs) > 0 {
		f.quarantined, f.lease = true, kvs[0].Lease
	}
	if kvs := got[3].Kvs; len(kvs) > 0 {
		if err := decode(kvs[0], &f.seen, func() int { return format }); err != nil {
			return f, err
		}
	}
	if n.given {
		f.index = max(f.index, f.seen.Index) // it may be another member's, which lags behind
		if f.meta != nil {
			f.index = max(f.index, f.meta.Index)
		}
	}
	v.mu.Lock()
	v.cluster = a.Header.ClusterId
	v.mu.Unlock()
	return f, v.checkDuplicate(a.Header.ClusterId)
}

// checkDuplicate refuses a cluster that is another node of the group already: it would
// vote twice.
func (v *voting) checkDuplicate(cluster uint64) error {
	v.mu.Lock()
	earlier := v.earlier
	v.mu.Unlock()
	for _, other := range earlier {
		other.voting.mu.Lock()
		same := other.voting.cluster == cluster
		other.voting.mu.Unlock()
		if same {
			return misconfigured("this is the same cluster as the node %s: a cluster is one node, and has one vote", other.name)
		}
	}
	return nil
}

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	to := &group{Group: g, pure: true}
	var earlier []*Node
	passed := false
	for _, other := range g.Nodes {
		name := other.String()
		if named, ok := other.Engine().(interface{ Member() string }); ok {
			name = named.Member()
		}
		to.members = append(to.members, name)
		if e, ok := other.Engine().(*Node); ok {
			passed = passed || e == n
			if !passed {
				earlier = append(earlier, e)
			}
		} else {
			to.pure = false
		}
	}
	slices.Sort(to.members)
	if len(to.members) == 1 {
		to.members = []string{alone} // whatever members of the cluster this client names
	}
	v := &n.voting
	v.mu.Lock()
	defer v.mu.Unlock()
	same := func(a, b node.Node) bool { return a.Engine() == b.Engine() } // through wrappers
	if old := v.joined; old != nil && (!slices.EqualFunc(old.Nodes, g.Nodes, same) || old.MaxTTL != g.MaxTTL) {
		return n.errorf("join", errors.New("it belongs to another group already, with other nodes or another MaxTTL"))
	}
	v.joined, v.earlier = to, earlier
	return nil
}

// used reports whether the store was admitted before, as far as this process knows.
func (v *voting) used() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known
}

func (v *voting) group() (*group, string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.joined, v.lost
}
