//go:build unix

package etcdnode_test

import (
	"context"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/etcdnode"
)

// Close ends what waits for a cluster that is gone or hangs, whatever time it has, also
// over a client that goes on.
func TestCloseEndsRequests(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(e *testserver.Etcd) (*etcdnode.Node, error){
		"URL":    func(e *testserver.Etcd) (*etcdnode.Node, error) { return etcdnode.Open("etcd://" + e.Addrs()) },
		"client": func(e *testserver.Etcd) (*etcdnode.Node, error) { return etcdnode.New(raw(t, e), "") },
	} {
		for way, end := range map[string]func(*testserver.EtcdMember){
			"is killed": func(m *testserver.EtcdMember) { m.Kill() }, "is stopped": func(m *testserver.EtcdMember) { m.Pause() },
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				e := testserver.StartEtcd(t, 1)
				n, err := open(e)
				if err != nil {
					t.Fatal(err)
				}
				join(t, n, longest, true)
				await(t, n)
				end(e.Members[0])
				ended := make(chan error, 3)
				for _, ask := range []func() error{
					func() error {
						_, err := n.Do(context.Background(), request(node.Release, "a", "1", 0))
						return err
					},
					func() error { return n.List(context.Background(), "", func(node.Lease) bool { return true }) },
					func() error { _, err := n.Registers(context.Background()); return err },
				} {
					go func() { ended <- ask() }()
				}
				time.Sleep(300 * time.Millisecond) // or they would not have begun
				n.Close()
				for range cap(ended) {
					select {
					case err := <-ended:
						if err == nil {
							t.Error("an answer of a cluster that is not there")
						}
					case <-time.After(3 * time.Minute):
						t.Fatal("it goes on after Close")
					}
				}
			})
		}
	}
}
