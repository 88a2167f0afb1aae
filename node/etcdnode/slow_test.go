//go:build unix

package etcdnode_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/etcdnode"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A request waits for an etcd lease that another one has asked for, and whose answer is slow. It
// ends earlier than what this one is granted: this one asks for another.
func TestSlowGrant(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	var grants atomic.Int64
	var slow atomic.Bool
	first, loads, goOn := make(chan clientv3.LeaseID), make(chan bool, 100), make(chan bool)
	l := startLiar(t, e, func(request, reply any, err error) (any, error) {
		switch r := request.(type) {
		case *pb.LeaseGrantRequest:
			switch n := grants.Add(1); {
			case !slow.Load():
				grants.Store(0)
			case n < 4: // after some refusals, a member has more time to answer
				return nil, rpctypes.ErrGRPCNoLeader
			case n == 4:
				first <- clientv3.LeaseID(reply.(*pb.LeaseGrantResponse).ID)
				<-goOn
			}
		case *pb.TxnRequest:
			if key := r.Success[0].GetRequestRange().GetKey(); strings.Contains(string(key), "/stripe/") {
				loads <- true
			}
		}
		return reply, err
	})
	n := open(t, "etcd://"+l.addr)
	await(t, n)
	for len(loads) > 0 {
		<-loads
	}
	errs, ctx := make(chan error, 2), within(t, 20*time.Second)
	acquire := func(name string) {
		a, err := n.Do(ctx, request(node.Acquire, name, "1", time.Minute))
		if err == nil && a.Status != node.Granted {
			err = fmt.Errorf("%v", a.Status)
		}
		errs <- err
	}
	slow.Store(true)
	go acquire("a")
	<-loads
	early := <-first
	time.Sleep(etcdnode.Window + 100*time.Millisecond)
	go acquire("b")
	<-loads
	time.Sleep(200 * time.Millisecond) // it waits for the same
	close(goOn)
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	for _, record := range beginning(keysOf(t, raw(t, e), etcdnode.DefaultPrefix), fmt.Sprintf("stripe/%d ",
		node.Stripe("b"))) {
		if strings.Contains(record, fmt.Sprintf("by %x ", early)) {
			t.Errorf("it was written in the session that ends before it: %q", record)
		}
	}
}
