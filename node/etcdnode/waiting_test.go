//go:build unix

package etcdnode_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/etcdnode"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A listener's etcd lease is renewed, also after the member that was asked hangs; when it is gone,
// the client registers anew, and is told that it may have missed something.
func TestListenerStays(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 3)
	n, err := etcdnode.Open("etcd://" + e.Addrs())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	missed := make(chan bool, 100)
	if err := n.Listen(within(t, 20*time.Second), client1, func(string) { missed <- true }); err != nil {
		t.Fatal(err)
	}
	c := raw(t, e)
	lease := func() (clientv3.LeaseID, error) {
		a, err := c.Get(within(t, time.Second), etcdnode.DefaultPrefix+"wake/"+client1)
		if err != nil || len(a.Kvs) == 0 {
			return 0, fmt.Errorf("it is not there: %v", err)
		}
		return clientv3.LeaseID(a.Kvs[0].Lease), nil
	}
	renewed := func(when string) {
		t.Helper()
		var of clientv3.LeaseID
		var least int64
		eventually(t, func() error {
			id, err := lease()
			if err != nil {
				return err
			}
			left, err := c.TimeToLive(within(t, time.Second), id)
			switch {
			case err != nil:
				return err
			case id != of:
				of, least = id, left.TTL // on a busy machine it may have ended
			case left.TTL > least:
				return nil
			}
			least = left.TTL
			return fmt.Errorf("%s: %d s are left of its lease", when, least)
		})
	}
	renewed("at first")
	m := leader(t, e)
	m.Pause()
	renewed("while the leader hangs")
	m.Resume()
	for len(missed) > 0 {
		<-missed
	}
	eventually(t, func() error {
		id, err := lease()
		if err == nil {
			_, err = c.Revoke(within(t, time.Second), id)
		}
		return err
	})
	select {
	case <-missed:
	case <-time.After(time.Minute):
		t.Error("its lease was revoked, and it has not noticed")
	}
	renewed("after it was revoked")
}
