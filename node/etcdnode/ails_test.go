//go:build unix

package etcdnode_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/etcdnode"
)

// A node knows why no member can be used before the time of a request is up. It forgets that as
// soon as one answers.
func TestAils(t *testing.T) {
	t.Parallel()
	closed, other := testserver.WrongAddrs(t)
	ask := func(n *etcdnode.Node) {
		n.Do(within(t, time.Second), request(node.Acquire, "x", "1", time.Second))
	}
	until := func(is func() bool) { // busy machines take longer
		for tries := 0; tries < 50 && !is(); tries++ {
		}
	}
	for address, says := range map[string]string{
		closed:            "nothing listens there",
		"nowhere.invalid": "correct the name of the host",
		other:             "another kind of server",
	} {
		n := open(t, "etcd://"+address)
		until(func() bool { ask(n); return n.Ails() != nil })
		if err := n.Ails(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", address, err, says)
		}
	}
	server := testserver.StartEtcd(t, 1)
	for range 8 { // a client begins with any of them
		n := unjoined(t, "etcd://"+closed+","+server.Addrs())
		if _, err := n.Store().Facts(within(t, 20*time.Second)); err != nil || n.Ails() != nil {
			t.Errorf("a member answers: %v, %v", err, n.Ails())
		}
	}
	n := open(t, "etcd://"+server.Addrs())
	server.Members[0].Kill()
	until(func() bool { ask(n); return n.Ails() != nil })
	server.Start(server.Members...)
	if until(func() bool { ask(n); return n.Ails() == nil }); n.Ails() != nil {
		t.Errorf("it answers again: %v", n.Ails())
	}
}
