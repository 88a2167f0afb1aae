package etcdnode

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// While no cluster is there, each attempt leaves a key that may have to be removed. They
// are not remembered without a bound.
func TestRemovalsAreBounded(t *testing.T) {
	n, err := Open("etcd://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * mostRemoved {
		key := n.keys.lease(fmt.Sprint(i))
		n.held.remove(key, clientv3.Compare(clientv3.ModRevision(key), "=", 1))
	}
	n.held.mu.Lock()
	if n.held.removing > mostRemoved {
		t.Errorf("%d keys are being removed; want %d at most", n.held.removing, mostRemoved)
	}
	n.held.mu.Unlock()
	n.Close()
	if n.held.removing != 0 {
		t.Errorf("after Close: %d", n.held.removing)
	}
}

// A lease is extended while the timer of the one before goes off. What was granted a moment
// ago is not removed.
func TestExtendedAtTheLastMoment(t *testing.T) {
	n, err := Open("etcd://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	lease := func(mod int64) *held {
		return &held{record: record{ttl: time.Hour, holder: "holder"}, mod: mod}
	}
	first := lease(1)
	n.held.keep("a", first, true)
	n.held.keep("a", lease(2), true)
	n.held.over("a", first.until)
	if n.held.removing != 0 || n.held.of("a", "holder") == nil {
		t.Error("the extended lease was ended")
	}
	confirmed := lease(3)
	n.held.keep("a", confirmed, false) // which leaves the end as it was
	n.held.over("a", confirmed.until)
	if n.held.removing != 1 || n.held.of("a", "holder") != nil {
		t.Error("the lease goes on after its end")
	}
}
