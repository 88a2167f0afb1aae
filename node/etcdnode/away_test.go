//go:build unix

package etcdnode_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// asksForSessions reports whether a client asks which sessions have ended.
func asksForSessions(r *pb.TxnRequest) bool {
	return len(r.Success) > 0 && strings.Contains(string(r.Success[0].GetRequestRange().GetKey()), "/session/")
}

// A client asks whether the session of a lease has ended, and is led to another cluster meanwhile,
// as another of its requests has heard. The lease is not over: it is held where the client comes
// back to.
func TestAskedAnotherCluster(t *testing.T) {
	t.Parallel()
	first, second := testserver.StartEtcd(t, 1), testserver.StartEtcd(t, 1)
	for range 50 { // as much is behind it as behind the first
		if _, err := raw(t, second).Put(t.Context(), "x", "y"); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := grpc.NewClient(second.Members[0].Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	elsewhere := func(r *pb.TxnRequest) (any, error) {
		return pb.NewKVClient(conn).Txn(context.WithoutCancel(t.Context()), r)
	}
	var away, asked atomic.Bool
	stopped, goOn := make(chan bool), make(chan bool)
	l := startLiar(t, first, func(request, reply any, err error) (any, error) {
		r, is := request.(*pb.TxnRequest)
		switch {
		case is && asksForSessions(r) && asked.CompareAndSwap(false, true):
			stopped <- true
			<-goOn
			return elsewhere(r)
		case is && away.Load():
			return elsewhere(r)
		}
		return reply, err
	})
	n := open(t, "etcd://"+l.addr)
	await(t, n)
	held := request(node.Acquire, "a", "1", time.Minute)
	must(t, open(t, "etcd://"+first.Addrs()), held, node.Granted)
	type outcome struct {
		a   node.Answer
		err error
	}
	got, ctx := make(chan outcome, 1), within(t, 20*time.Second)
	go func() {
		a, err := n.Do(ctx, request(node.Acquire, "a", "2", time.Minute))
		got <- outcome{a, err}
	}()
	<-stopped
	away.Store(true)
	if a, err := n.Do(ctx, request(node.Acquire, "b", "1", time.Minute)); err == nil ||
		!strings.Contains(err.Error(), "another cluster") {
		t.Errorf("at another cluster: %+v, %v", a, err)
	}
	away.Store(false)
	close(goOn)
	if o := <-got; o.err == nil && o.a.Status == node.Granted {
		t.Errorf("granted, and it is held: %+v", o.a)
	}
	must(t, n, request(node.Acquire, "a", "3", time.Minute), node.Held)
	must(t, n, as(node.Extend, held), node.Granted)
}
