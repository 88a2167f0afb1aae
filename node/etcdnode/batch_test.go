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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Transactions travel together, and another process has changed the record of one of them. That one
// is refused, and the others are carried out: each has an answer of its own. If the mark is gone,
// all are refused.
func TestRefusedAmongOthers(t *testing.T) {
	for name, wiped := range map[string]bool{"a record": false, "the mark": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, wiped)
		})
	}
}

func refused(t *testing.T, wiped bool) {
	e := testserver.StartEtcd(t, 1)
	var holds, parts atomic.Int64
	held, goOn := make(chan bool), make(chan bool)
	l := startLiar(t, e, func(request, reply any, err error) (any, error) {
		r, is := request.(*pb.TxnRequest)
		if !is || len(r.Success) == 0 {
			return reply, err
		}
		if r.Success[0].GetRequestTxn() != nil {
			parts.Store(int64(len(r.Success)))
		} else if r.Success[0].GetRequestPut() != nil && holds.Add(-1) >= 0 {
			held <- true
			<-goOn
		}
		return reply, err
	})
	n, other := open(t, "etcd://"+l.addr), open(t, "etcd://"+e.Addrs())
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names { // so that each is one transaction
		r := request(node.Acquire, name, "1", time.Minute)
		must(t, n, r, node.Granted)
		must(t, n, as(node.Release, r), node.Granted)
	}
	must(t, other, request(node.Acquire, "d", "2", time.Minute), node.Granted)
	ctx := within(t, 20*time.Second)
	got := map[string]chan string{}
	acquire := func(name string) {
		got[name] = make(chan string, 1)
		go func() {
			a, err := n.Do(ctx, request(node.Acquire, name, "3", time.Minute))
			got[name] <- fmt.Sprint(a.Status, err)
		}()
	}
	holds.Store(2)
	acquire("a")
	acquire("b")
	<-held
	<-held
	for _, name := range names[2:] {
		acquire(name)
	}
	eventually(t, func() error {
		if queued := n.Together(); queued < 4 {
			return fmt.Errorf("%d wait", queued)
		}
		return nil
	})
	if wiped {
		if _, err := raw(t, e).Delete(t.Context(), etcdnode.DefaultPrefix+"meta"); err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	for i, name := range names {
		want := fmt.Sprint(node.Granted, nil)
		if wiped && i > 1 {
			want = fmt.Sprint(node.Rejoining, nil)
		} else if name == "d" {
			want = fmt.Sprint(node.Held, nil)
		}
		if said := <-got[name]; said != want {
			t.Errorf("%s: %s; want %s", name, said, want)
		}
	}
	if all := parts.Load(); all != 4 {
		t.Errorf("%d travelled together; want 4", all)
	}
	for _, name := range []string{"c", "e", "f"} {
		if !wiped {
			must(t, other, request(node.Acquire, name, "4", time.Minute), node.Held)
		}
	}
}

// A proxy sends a transaction twice, and the client has the second answer. The lease is there, and
// the client does not know since when. It is neither granted nor refused, and a release removes it:
// also if what is there cannot be read then.
func TestSentTwice(t *testing.T) {
	for _, unread := range []bool{false, true} {
		t.Run(fmt.Sprintf("unread=%v", unread), func(t *testing.T) { sentTwice(t, unread) })
	}
}

func sentTwice(t *testing.T, unread bool) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	again := pb.NewKVClient(raw(t, e).ActiveConnection())
	var twice, fails atomic.Bool
	l := startLiar(t, e, func(request, reply any, err error) (any, error) {
		r, is := request.(*pb.TxnRequest)
		if is && len(r.Success) > 0 && strings.Contains(string(r.Success[0].GetRequestPut().GetKey()), "/stripe/") &&
			twice.CompareAndSwap(true, false) {
			fails.Store(unread)
			return again.Txn(t.Context(), r)
		}
		if fails.Load() {
			return nil, status.Error(codes.Unknown, "not now")
		}
		return reply, err
	})
	n, other := open(t, "etcd://"+l.addr), open(t, "etcd://"+e.Addrs())
	await(t, n)
	twice.Store(true)
	r := request(node.Acquire, "a", "1", time.Minute)
	if a, err := n.Do(within(t, 20*time.Second), r); err == nil || errors.Is(err, node.ErrNotSent) {
		t.Errorf("%+v, %v; want an unknown outcome", a, err)
	}
	fails.Store(false)
	must(t, other, request(node.Acquire, "a", "2", time.Minute), node.Held)
	must(t, n, as(node.Release, r), node.Granted)
	must(t, other, request(node.Acquire, "a", "2", time.Minute), node.Granted)
}
