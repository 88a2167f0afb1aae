package etcdnode

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// dialed counts the connections of a client. Each is counted before anything is sent there.
type dialed struct{ count *atomic.Int64 }

var _ stats.Handler = dialed{}

// TagConn implements stats.Handler.
func (dialed) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (d dialed) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, begins := s.(*stats.ConnBegin); begins {
		d.count.Add(1)
	}
}

// TagRPC implements stats.Handler.
func (dialed) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (dialed) HandleRPC(context.Context, stats.RPCStats) {}

// watch counts for a client that was given, until its node's life ends. It counts each change of
// the client's connection, as soon as it is told. A cluster that is set back has no member up for a
// moment, so there is one.
func (d dialed) watch(life context.Context, conn *grpc.ClientConn) {
	for was := conn.GetState(); conn.WaitForStateChange(life, was); was = conn.GetState() {
		d.count.Add(1)
	}
}
