//go:build unix

package etcdnode_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/etcdnode"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// liar is a member that passes on what it is asked to a real one, and then may answer
// something else.
type liar struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedWatchServer

	conn *grpc.ClientConn
	addr string
}

// startLiar starts one. It has every reply to a single question pass through lie.
func startLiar(t testing.TB, e *testserver.Etcd, lie func(request, reply any, err error) (any, error)) *liar {
	t.Helper()
	conn, err := grpc.NewClient(e.Members[0].Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{conn: conn, addr: listener.Addr().String()}
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
		handle grpc.UnaryHandler) (any, error) {
		reply, err := handle(ctx, request)
		return lie(request, reply, err)
	}))
	pb.RegisterKVServer(server, l)
	pb.RegisterLeaseServer(server, l)
	pb.RegisterMaintenanceServer(server, l)
	pb.RegisterWatchServer(server, l)
	go server.Serve(listener)
	t.Cleanup(func() { server.Stop(); conn.Close() })
	return l
}

func (l *liar) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return pb.NewKVClient(l.conn).Range(ctx, r)
}

func (l *liar) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return pb.NewKVClient(l.conn).Txn(ctx, r)
}

func (l *liar) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return pb.NewLeaseClient(l.conn).LeaseGrant(ctx, r)
}

func (l *liar) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	return pb.NewLeaseClient(l.conn).LeaseRevoke(ctx, r)
}

func (l *liar) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	return pb.NewLeaseClient(l.conn).LeaseTimeToLive(ctx, r)
}

func (l *liar) Status(ctx context.Context, r *pb.StatusRequest) (*pb.StatusResponse, error) {
	return pb.NewMaintenanceClient(l.conn).Status(ctx, r)
}

func (l *liar) LeaseKeepAlive(near grpc.BidiStreamingServer[pb.LeaseKeepAliveRequest,
	pb.LeaseKeepAliveResponse]) error {
	far, err := pb.NewLeaseClient(l.conn).LeaseKeepAlive(near.Context())
	if err != nil {
		return err
	}
	return pass(near.Recv, far.Send, far.Recv, near.Send)
}

func (l *liar) Watch(near grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	far, err := pb.NewWatchClient(l.conn).Watch(near.Context())
	if err != nil {
		return err
	}
	return pass(near.Recv, far.Send, far.Recv, near.Send)
}

// pass passes on what comes in both directions until the answers end.
func pass[Q, A any](recvQ func() (Q, error), sendQ func(Q) error, recvA func() (A, error), sendA func(A) error) error {
	go func() {
		for {
			q, err := recvQ()
			if err != nil || sendQ(q) != nil {
				return
			}
		}
	}()
	for {
		a, err := recvA()
		if err == nil {
			err = sendA(a)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// lies are what a server may answer that is broken, hostile or another program.
var lies = map[string]func(*pb.TxnResponse){
	"nothing":               func(a *pb.TxnResponse) { a.Reset() },
	"no header":             func(a *pb.TxnResponse) { a.Header = nil },
	"no responses":          func(a *pb.TxnResponse) { a.Responses = nil },
	"one response":          func(a *pb.TxnResponse) { a.Responses = a.Responses[:min(len(a.Responses), 1)] },
	"one response too many": func(a *pb.TxnResponse) { a.Responses = append(a.Responses, &pb.ResponseOp{}) },
	"empty responses":       func(a *pb.TxnResponse) { replace(a, func() *pb.ResponseOp { return &pb.ResponseOp{} }) },
	"reads": func(a *pb.TxnResponse) {
		replace(a, func() *pb.ResponseOp {
			return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}}
		})
	},
	"transactions": func(a *pb.TxnResponse) {
		replace(a, func() *pb.ResponseOp {
			return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{}}}
		})
	},
	"the other outcome": func(a *pb.TxnResponse) { a.Succeeded = !a.Succeeded },
	"huge numbers":      func(a *pb.TxnResponse) { number(a, math.MaxInt64) },
	"negative numbers":  func(a *pb.TxnResponse) { number(a, math.MinInt64) },
	"no keys": func(a *pb.TxnResponse) {
		keyValues(a, func(kv *mvccpb.KeyValue) { kv.Reset() })
	},
	"no values": func(a *pb.TxnResponse) {
		keyValues(a, func(kv *mvccpb.KeyValue) { kv.Value = []byte("\xff 99999999999999999999 \x00 1 1") })
	},
}

func replace(a *pb.TxnResponse, by func() *pb.ResponseOp) {
	for i := range a.Responses {
		a.Responses[i] = by()
	}
}

func keyValues(a *pb.TxnResponse, f func(*mvccpb.KeyValue)) {
	for _, r := range a.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			f(kv)
		}
	}
}

func number(a *pb.TxnResponse, n int64) {
	a.Header.Revision, a.Header.RaftTerm = n, uint64(n)
	for _, r := range a.Responses {
		if read := r.GetResponseRange(); read != nil {
			read.Count = n
		}
	}
	keyValues(a, func(kv *mvccpb.KeyValue) { kv.ModRevision, kv.CreateRevision, kv.Lease = n, n, n })
}

// Whatever a server answers to a transaction, the program that sent it does not crash. The program
// learns nothing that the answer does not say.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	for name, lie := range lies {
		for after := range int64(8) { // true answers: admission takes some, and each operation
			t.Run(fmt.Sprintf("%s after %d", name, after), func(t *testing.T) {
				var answers atomic.Int64
				l := startLiar(t, e, func(_, reply any, err error) (any, error) {
					if a, ok := reply.(*pb.TxnResponse); ok && err == nil && answers.Add(1) > after {
						lie(a)
					}
					return reply, err
				})
				n := open(t, fmt.Sprintf("etcd://%s/test/%d", l.addr, prefixes.Add(1)))
				soon := func() context.Context { return within(t, 100*time.Millisecond) }
				for i := range 2 { // the second waits
					r := request(node.Acquire, "a", fmt.Sprint(i), time.Minute)
					r.Place = node.Place{Waiter: fmt.Sprint(client1, ":", i+1), Stamp: 1}
					n.Do(soon(), r)
					if i == 0 {
						n.Listen(soon(), client1, func(string) {})
					}
					for _, op := range []node.Op{node.Confirm, node.Extend} {
						n.Do(soon(), as(op, r))
					}
				}
				n.Inspect(soon(), "a")
				n.Waiting(soon(), "a", 3)
				n.List(soon(), "", func(node.Lease) bool { return true })
				n.Registers(soon())
				n.Examine(soon(), node.Look{MaxTTL: time.Minute, Thorough: true})
				n.Do(soon(), request(node.ForceRelease, "a", "", 0))
			})
		}
		t.Run(name+" to a guard", func(t *testing.T) {
			for after := range int64(3) {
				var answers atomic.Int64
				l := startLiar(t, e, func(_, reply any, err error) (any, error) {
					if a, ok := reply.(*pb.TxnResponse); ok && err == nil && answers.Add(1) > after {
						lie(a)
					}
					return reply, err
				})
				c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + l.addr}, Logger: zap.NewNop()})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				g, err := etcdnode.NewGuard(c)
				if err != nil {
					t.Fatal(err)
				}
				for _, token := range []fence.Token{5, 6, 4} {
					g.Do(within(t, time.Second), fmt.Sprint(name, after), token, clientv3.OpPut("x", "y"), clientv3.OpGet("x"))
				}
			}
		})
	}
}

// One change is lost, and the next takes its place: what a write has for a revision was heard of
// already.
func TestOneLostChange(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	var lost atomic.Int64
	l := startLiar(t, e, func(_, reply any, err error) (any, error) {
		if a, ok := reply.(*pb.TxnResponse); ok && err == nil {
			a.Header.Revision -= lost.Load()
		}
		return reply, err
	})
	n := open(t, "etcd://"+l.addr)
	await(t, n)
	r := request(node.Acquire, "a", "1", time.Minute)
	must(t, n, r, node.Granted)
	must(t, n, as(node.Extend, r), node.Granted)
	lost.Store(1)
	if a, err := n.Do(within(t, 10*time.Second), as(node.Extend, r)); err == nil ||
		!strings.Contains(err.Error(), "set back from revision") {
		t.Errorf("answered %+v, %v", a, err)
	}
}

// An operation knew the mark before its client heard that the cluster was set back. It sends its
// transaction only afterwards: the mark is there, in the state that was set back.
func TestSetBackBeforeItWasSent(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	var lost atomic.Int64
	var stop atomic.Bool
	stopped, goOn := make(chan bool), make(chan bool)
	l := startLiar(t, e, func(_, reply any, err error) (any, error) {
		switch a := reply.(type) {
		case *pb.TxnResponse:
			if err == nil {
				a.Header.Revision -= lost.Load()
			}
		case *pb.LeaseGrantResponse:
			if stop.CompareAndSwap(true, false) {
				stopped <- true
				<-goOn
			}
		}
		return reply, err
	})
	n := open(t, "etcd://"+l.addr)
	await(t, n)
	for _, name := range []string{"a", "b"} { // so that the next one need not read
		r := request(node.Acquire, name, "1", time.Minute)
		must(t, n, r, node.Granted)
		must(t, n, as(node.Release, r), node.Granted)
	}
	ctx := within(t, 20*time.Second)
	type outcome struct {
		a   node.Answer
		err error
	}
	got := make(chan outcome, 1)
	stop.Store(true)
	go func() {
		a, err := n.Do(ctx, request(node.Acquire, "a", "2", 2*time.Minute)) // which needs an etcd lease
		got <- outcome{a, err}
	}()
	<-stopped
	lost.Store(5)
	if a, err := n.Do(within(t, 10*time.Second), request(node.Acquire, "b", "3", time.Minute)); err == nil ||
		!strings.Contains(err.Error(), "set back from revision") {
		t.Errorf("answered %+v, %v", a, err)
	}
	close(goOn)
	if o := <-got; o.err == nil && o.a.Status == node.Granted || errors.Is(o.err, node.ErrNotSent) {
		t.Errorf("by a cluster that was set back: %+v, %v", o.a, o.err)
	}
}

// A learner among the members is passed over, also when a member becomes one that was asked.
func TestLearnerAmongMembers(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	learner := startLiar(t, e, func(any, any, error) (any, error) { return nil, rpctypes.ErrGRPCNotSupportedForLearner })
	var learns atomic.Bool
	later := startLiar(t, e, func(_, reply any, err error) (any, error) {
		if learns.Load() {
			return nil, rpctypes.ErrGRPCNotSupportedForLearner
		}
		return reply, err
	})
	for i := range 8 { // a client begins with any of them
		learns.Store(false)
		n := open(t, fmt.Sprintf("etcd://%s,%s,%s", learner.addr, later.addr, e.Addrs()))
		r := request(node.Acquire, fmt.Sprint("a", i), "1", time.Minute)
		must(t, n, r, node.Granted)
		learns.Store(true)
		eventually(t, func() error { _, err := n.Do(within(t, time.Second), as(node.Extend, r)); return err })
	}
	alone := open(t, "etcd://"+learner.addr)
	if _, err := alone.Do(within(t, 10*time.Second), request(node.Acquire, "b", "1", time.Minute)); !errors.Is(err,
		node.ErrMisconfigured) {
		t.Errorf("alone: %v; want ErrMisconfigured", err)
	}
}
