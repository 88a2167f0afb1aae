package etcdnode

import (
	"context"
	"net"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// A cluster that refuses as fast as it is asked, because it has no leader, is asked on, each time
// with time to answer.
func TestRefusedManyTimes(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	go server.Serve(listener)
	defer server.Stop()
	n, err := Open("etcd://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	asked := 0
	err = n.pool.repeat(ctx, func(ctx context.Context, _ *clientv3.Client) error {
		if asked++; ctx.Err() != nil {
			t.Fatalf("the question %d has no time", asked)
		}
		if asked < 100 {
			return rpctypes.ErrGRPCNoLeader
		}
		return nil
	})
	if err != nil || asked != 100 {
		t.Errorf("after %d questions: %v", asked, err)
	}
}
