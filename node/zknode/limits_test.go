package zknode

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// refuses checks that an acquire is refused with an error that says why, and that nothing of it
// was carried out.
func refuses(t *testing.T, n *Node, misconfigured bool, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	a, err := n.Do(ctx, as(node.Acquire, request("refused", "me", 0)))
	if err == nil || !errors.Is(err, node.ErrNotSent) || errors.Is(err, node.ErrMisconfigured) != misconfigured ||
		!strings.Contains(err.Error(), why) {
		t.Errorf("%+v, %v; want %q", a, err, why)
	}
}

// asked returns what Examine finds of the servers, with as much time as a session would get.
func asked(t *testing.T, n *Node) (found string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	e, _ := n.Examine(ctx, node.Look{MaxTTL: time.Second})
	for _, f := range e.Findings {
		if f.Check == "server" {
			found += f.Reason
		}
	}
	return found
}

func TestMaxClientCnxns(t *testing.T) {
	t.Parallel()
	url := "zk://" + testserver.StartZooKeeper(t, "maxClientCnxns=2").Addr()
	first, second, third := open(t, url), open(t, url), open(t, url)
	ready(t, first)
	ready(t, second)
	refuses(t, third, false, "maxClientCnxns")
	first.Close()
	ready(t, third)
}

// A server that is cut off from the others, and may answer reads, grants nothing. An examination
// says so.
func TestReadOnlyServer(t *testing.T) {
	t.Setenv("JDK_JAVA_OPTIONS", "-Dreadonlymode.enabled=true")
	servers := testserver.StartZooKeepers(t, 3, nil)
	n := voting(t, "zk://"+servers[0].Addr())
	held := request("held", "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	servers[1].Kill()
	servers[2].Kill()
	for range 1000 {
		if servers[0].Mode() == "read-only" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	refuses(t, n, false, "read-only")
	refuses(t, open(t, "zk://"+servers[0].Addr()), false, "read-only")
	if found := asked(t, n); !strings.Contains(found, "read-only mode") {
		t.Errorf("found %q", found)
	}
	for _, z := range servers[1:] {
		go z.Begin()
	}
	eventually(t, n, as(node.Extend, held))
}

// A quota that is exceeded refuses operations if the servers enforce it, and never a part of one.
func TestQuota(t *testing.T) {
	t.Parallel()
	for _, enforced := range []bool{false, true} {
		var config []string
		if enforced {
			config = []string{"enforceQuota=true"}
		}
		n := voting(t, "zk://"+testserver.StartZooKeeper(t, config...).Addr())
		link := linkOf(t, n)
		quota := "/zookeeper/quota" + n.root
		replies, err := link.Do(t.Context(), wire.Create{Path: quota, ACL: n.acl},
			wire.Create{Path: quota + "/zookeeper_stats", Data: []byte("count=9,bytes=999"), ACL: n.acl},
			wire.Create{Path: quota + "/zookeeper_limits", Data: []byte("count=3,bytes=-1=;byteHardLimit=-1;countHardLimit=3"),
				ACL: n.acl})
		if err != nil || replies[2].Err != wire.OK {
			t.Fatalf("%+v, %v", replies, err)
		}
		if !enforced {
			ready(t, n)
			continue
		}
		refuses(t, n, true, "a quota is exceeded: raise that of /fenlock")
		if l, err := n.Inspect(t.Context(), "refused"); err != nil || l.Leased || l.Register != 0 {
			t.Errorf("%+v, %v: a part of it was carried out", l, err)
		}
	}
}
