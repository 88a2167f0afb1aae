package zknode

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// A node knows why no server can be used before the time of a request is up. It forgets that as
// soon as one answers.
func TestAils(t *testing.T) {
	t.Parallel()
	closed, other := testserver.WrongAddrs(t)
	ask := func(n *Node) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n.Do(ctx, as(node.Acquire, request("x", "1", 1)))
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
		n := open(t, "zk://"+address)
		until(func() bool { ask(n); return n.Ails() != nil })
		if err := n.Ails(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", address, err, says)
		}
	}
	server := testserver.StartZooKeeper(t)
	n := open(t, "zk://"+server.Addr())
	server.Kill()
	until(func() bool { ask(n); return n.Ails() != nil })
	if err := server.Begin(); err != nil {
		t.Fatal(err)
	}
	if until(func() bool { ask(n); return n.Ails() == nil }); n.Ails() != nil {
		t.Errorf("it answers again: %v", n.Ails())
	}
}
