//go:build unix

package etcdnode_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/etcdnode"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A look at the store may take longer than a request has: a later request finds what it has found.
func TestLookOutlivesRequest(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	group := func(n *etcdnode.Node) *etcdnode.Node {
		t.Cleanup(func() { n.Close() })
		if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: 5 * time.Second, New: true}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	first, err := etcdnode.Open("etcd://" + e.Addrs())
	if err != nil {
		t.Fatal(err)
	}
	must(t, group(first), request(node.Acquire, "first", "1", time.Second), node.Granted)
	slow := startLiar(t, e, func(request, reply any, err error) (any, error) {
		if _, is := request.(*pb.StatusRequest); is {
			time.Sleep(700 * time.Millisecond)
		}
		return reply, err
	})
	n, err := etcdnode.Open("etcd://" + slow.addr + "?name=" + e.Addrs())
	if err != nil {
		t.Fatal(err)
	}
	group(n)
	for range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		a, doErr := n.Do(ctx, request(node.Acquire, "second", "2", time.Second))
		cancel()
		if doErr == nil && a.Status == node.Granted {
			return
		}
		err = fmt.Errorf("%v, %w", a.Status, errors.Join(doErr))
	}
	t.Errorf("of 40 requests with half a second each none was granted: %v", err)
}

// A listener that asks for nothing else finds another member, also past one that its user cannot
// log in at.
func TestListenerPassesMembers(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 5)
	c := raw(t, e)
	var errs []error
	do := func(_ any, err error) { errs = append(errs, err) }
	do(c.UserAdd(t.Context(), "root", "root"))
	do(c.UserGrantRole(t.Context(), "root", "root"))
	do(c.AuthEnable(t.Context()))
	looks, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + e.Members[4].Addr()}, Username: "root",
		Password: "root"})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { looks.Close() })
	e.Members[1].Pause()
	e.Members[2].Pause()
	n, err := etcdnode.Open(fmt.Sprintf("etcd://root:root@%s,%s,%s", e.Members[0].Addr(), e.Members[1].Addr(),
		e.Members[2].Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	eventually(t, func() error { // the five may be without a leader
		return n.Listen(within(t, 20*time.Second), client1, func(string) {})
	})
	e.Members[2].Resume()
	e.Members[0].Pause() // of those that are left, the third is in the URL
	stays := 0
	for range 60 {
		a, err := looks.Get(within(t, 5*time.Second), etcdnode.DefaultPrefix+"wake/"+client1)
		switch {
		case err != nil:
			stays = 0
		case len(a.Kvs) > 0:
			stays++
		default:
			stays = -1000 // it was lost: it has to come back
		}
		if stays == 20 {
			return
		}
		if stays < 0 {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	for range 60 {
		if a, err := looks.Get(within(t, 5*time.Second), etcdnode.DefaultPrefix+"wake/"+client1); err == nil &&
			len(a.Kvs) > 0 {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Error("it is not registered any more, and does not register again")
}

// Close leaves no registration behind, however many clients listen.
func TestCloseUnregistersAll(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	c := raw(t, e)
	eventually(t, func() error { // Close has a second, which a busy machine may not let suffice
		n, err := etcdnode.Open("etcd://" + e.Addrs())
		if err != nil {
			return err
		}
		defer n.Close()
		for i := range 300 {
			if err := n.Listen(within(t, 20*time.Second), fmt.Sprintf("%032x", i), func(string) {}); err != nil {
				return err
			}
		}
		n.Close()
		a, err := c.Get(within(t, 5*time.Second), etcdnode.DefaultPrefix+"wake/", clientv3.WithPrefix(),
			clientv3.WithCountOnly())
		if err == nil && a.Count > 0 {
			err = fmt.Errorf("%d clients are registered after Close", a.Count)
		}
		return err
	})
}
