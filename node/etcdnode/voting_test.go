package etcdnode

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// What is read of a store tells whether it is what was admitted, and whether the time counts for
// which it is out.
func TestJudge(t *testing.T) {
	n, err := Open("etcd://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	const maxTTL = 10 * time.Second
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL}); err != nil {
		t.Fatal(err)
	}
	admitted := func(change func(*looked)) *looked {
		l := &looked{cluster: "c", index: 100, term: 3, revision: 56, stamp: 7,
			meta: kept{mod: 7, mark: &mark{Cluster: "c", Memory: "m", Index: 50, Term: 2}}}
		if change != nil {
			change(l)
		}
		return l
	}
	noted := func(change func(*looked)) *looked {
		l := &looked{cluster: "c", index: 100, term: 3, revision: 56, stamp: 7, notice: kept{mod: 7,
			mark: &mark{Cluster: "c", Memory: "n", Index: 50, Term: 2, Fresh: true, Cause: node.Unused,
				Wait: 11 * time.Second}}}
		if change != nil {
			change(l)
		}
		return l
	}
	for _, c := range []struct {
		why  string
		l    *looked
		want admit.Facts
	}{
		{"as it was", admitted(nil), admit.Facts{Votes: true, Marked: true, Recorded: true}},
		{"another cluster", admitted(func(l *looked) { l.cluster = "d" }),
			admit.Facts{Marked: true, Recorded: true, Cause: node.Replaced}},
		{"put back key by key", admitted(func(l *looked) { l.meta.mod = 8 }),
			admit.Facts{Marked: true, Recorded: true, Cause: node.Replaced}},
		{"put back without the stamp", admitted(func(l *looked) { l.stamp = 0 }),
			admit.Facts{Marked: true, Recorded: true, Cause: node.Replaced}},
		{"raft has begun anew", admitted(func(l *looked) { l.index = 49 }),
			admit.Facts{Marked: true, Recorded: true, Cause: node.SetBack}},
		{"raft has begun anew, and come as far", admitted(func(l *looked) { l.revision = 57 }),
			admit.Facts{Marked: true, Recorded: true, Cause: node.SetBack}},
		{"in an earlier term", admitted(func(l *looked) { l.term = 1 }),
			admit.Facts{Marked: true, Recorded: true, Cause: node.SetBack}},
		{"less than a client saw", admitted(func(l *looked) { l.seen.Index = 101 }),
			admit.Facts{Marked: true, Recorded: true, Cause: node.SetBack}},
		{"an earlier term than a client saw", admitted(func(l *looked) { l.seen.Term = 4 }),
			admit.Facts{Marked: true, Recorded: true, Cause: node.SetBack}},
		{"a memory that was lost", admitted(func(l *looked) { l.meta.lost = true }),
			admit.Facts{Marked: true, Recorded: true, Cause: node.SetBack}},
		{"nothing", &looked{cluster: "c"}, admit.Facts{Cause: node.Unused}},
		{"registers only", &looked{cluster: "c", recorded: true}, admit.Facts{Cause: node.Unused, Recorded: true}},
		{"out", noted(nil), admit.Facts{Cause: node.Unused, Counted: true, Out: 11 * time.Second}},
		{"out and used", noted(func(l *looked) { l.notice.Fresh = false }),
			admit.Facts{Cause: node.Unused, Counted: true, Out: 11 * time.Second, Recorded: true}},
		{"out, and there are registers", noted(func(l *looked) { l.recorded = true }),
			admit.Facts{Cause: node.Unused, Counted: true, Out: 11 * time.Second, Recorded: true}},
		{"not counted yet", noted(func(l *looked) { l.notice.Wait = 0 }), admit.Facts{Cause: node.Unused}},
		{"counted for shorter leases", noted(func(l *looked) { l.notice.Wait = maxTTL }), admit.Facts{Cause: node.Unused}},
		{"the key that counts was written by hand",
			noted(func(l *looked) { l.quarantine = &mvccpb.KeyValue{ModRevision: 8} }), admit.Facts{Cause: node.Unused}},
		{"the notice of another cluster", noted(func(l *looked) { l.cluster = "d" }),
			admit.Facts{Cause: node.Replaced, Recorded: true}},
		{"the notice was put back", noted(func(l *looked) { l.notice.mod = 8 }),
			admit.Facts{Cause: node.Replaced, Recorded: true}},
		{"the notice is of before raft began anew", noted(func(l *looked) { l.index = 49 }),
			admit.Facts{Cause: node.Replaced, Recorded: true}},
		{"the notice is of before raft began anew, and came as far", noted(func(l *looked) { l.revision = 57 }),
			admit.Facts{Cause: node.Replaced, Recorded: true}},
		{"the notice is of what was lost", noted(func(l *looked) { l.notice.lost = true }),
			admit.Facts{Cause: node.Replaced, Recorded: true}},
	} {
		got := admit.Facts{}
		if err := n.voting.judge(t.Context(), c.l, &got); err != nil {
			t.Fatal(err)
		}
		if got.Votes != c.want.Votes || got.Marked != c.want.Marked || got.Recorded != c.want.Recorded ||
			got.Counted != c.want.Counted || got.Out != c.want.Out ||
			!got.Votes && got.Cause != c.want.Cause {
			t.Errorf("%s: %+v; want %+v", c.why, got, c.want)
		}
		if named := got.Memory != ""; named != (got.Marked || got.Counted ||
			c.l.notice.mark != nil && got.Cause == node.Unused) {
			t.Errorf("%s: the memory is called %q", c.why, got.Memory)
		}
	}
}

// An etcd lease that a member tells of was granted at least so long ago.
func TestElapsed(t *testing.T) {
	for _, c := range []struct {
		granted, ttl int64
		want         time.Duration
	}{
		{11, 11, 0}, {11, 10, 0}, {11, 9, time.Second}, {11, 0, 10 * time.Second}, {0, -1, math.MaxInt64},
		{11, math.MaxInt64 / int64(time.Second), 0}, {11, math.MaxInt64, 0}, {math.MinInt64, 5, 0},
	} {
		if got := elapsed(c.granted, c.ttl); got != c.want {
			t.Errorf("granted %d s, %d s left: %v; want %v", c.granted, c.ttl, got, c.want)
		}
	}
}

// A store that was set back is not believed by any of its earlier memories. What was under way at
// that moment takes nothing from the next one.
func TestSetBackTwice(t *testing.T) {
	n, err := Open("etcd://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	v := n.voting
	at := func(revision int64) *pb.ResponseHeader { return &pb.ResponseHeader{ClusterId: 1, Revision: revision} }
	look := func(memory string) (k kept, err error) {
		l := &looked{meta: kept{mark: &mark{Memory: memory}}}
		err = v.meet(l, 1, v.lives)
		return l.meta, err
	}
	for i, memory := range []string{"first", "second"} {
		if k, err := look(memory); err != nil || k.lost {
			t.Fatalf("%s: %+v, %v", memory, k, err)
		}
		if v.votes(&standing{mod: 1, memory: memory}); v.now() == nil {
			t.Fatalf("%s: it does not vote", memory)
		}
		if err := errors.Join(v.hear(at(100), v.floor()), v.hear(at(101), v.floor()+1)); err != nil {
			t.Fatal(err)
		}
		floor := v.floor()
		lives := v.lives
		if err := v.hear(at(50), floor); err == nil || v.now() != nil {
			t.Fatalf("%s: set back, and it votes: %v", memory, err)
		}
		if err := v.meet(&looked{}, 1, lives); err == nil {
			t.Error("what was read before the loss was heard of counts")
		}
		if v.votes(&standing{mod: 1, memory: memory}); v.now() != nil {
			t.Errorf("%s: what was found before the loss was heard of counts", memory)
		}
		if k, err := look([]string{"next", "after next"}[i]); err != nil || k.lost {
			t.Errorf("the next memory: %+v, %v", k, err)
		}
		if err := v.hear(at(51), floor); err == nil {
			t.Error("an answer of the store as it was set back counts for what was sent before")
		}
		if k, err := look([]string{"next", "after next"}[i]); err != nil || k.lost {
			t.Errorf("the next memory, after a late answer: %+v, %v", k, err)
		}
	}
	if k, err := look("first"); err != nil || !k.lost {
		t.Errorf("the first memory is believed again: %v", err)
	}
}

// The node that comes later in the group was asked first, and votes. When the other node is found
// to lead to the same cluster, that cluster has one vote all the same.
func TestOneClusterIsOneNodeInAnyOrder(t *testing.T) {
	var nodes [2]*Node
	for i := range nodes {
		n, err := Open(fmt.Sprintf("etcd://127.0.0.1:1/%d", i))
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		nodes[i] = n
	}
	a, b := nodes[0], nodes[1]
	g := node.Group{Nodes: []node.Node{a, b}, MaxTTL: time.Second}
	if err := errors.Join(a.Join(g), b.Join(g)); err != nil {
		t.Fatal(err)
	}
	b.voting.votes(&standing{mod: 1, server: "c", memory: "m"})
	if err := errors.Join(b.Admission().Serves("c"), a.Admission().Serves("c")); err != nil {
		t.Fatal(err)
	}
	r := node.Request{Op: node.Acquire, Name: "a", Holder: node.NewHolder([node.IDLength]byte{'a'}, time.Now(), 0, "a"),
		TTL: time.Second, Token: 1}
	if _, err := b.Do(t.Context(), r); !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v; want ErrMisconfigured", err)
	}
}

// Another cluster answers for a moment. The earlier cluster was set back when it answers again. It
// is not believed, although its revisions were forgotten in between because of the other cluster.
func TestSetBackMeanwhile(t *testing.T) {
	n, err := Open("etcd://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	v := n.voting
	look := func(cluster uint64, revision int64) error {
		l := &looked{revision: revision, meta: kept{mark: &mark{Memory: fmt.Sprint("m", cluster)}}}
		return errors.Join(v.hear(&pb.ResponseHeader{ClusterId: cluster, Revision: revision}, v.floor()),
			v.meet(l, cluster, v.lives))
	}
	if err := look(1, 100); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cluster  uint64
		revision int64
		fails    bool
	}{{2, 10, true}, {2, 10, false}, {1, 101, true}, {1, 101, false}, {2, 9, true}, {2, 9, false}} {
		if err := look(c.cluster, c.revision); (err != nil) != c.fails {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if !v.memories["m2"] {
		t.Error("what was set back meanwhile is believed")
	}
}
