package zknode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
)

// hanging is how long a test waits for what takes seconds, or a minute on a busy machine.
const hanging = 5 * time.Minute

// proxied are three servers that talk to each other through proxies, and a proxy before
// each for clients.
type proxied struct {
	testserver.ZooKeepers
	t     *testing.T
	front []*proxy.Proxy

	mu    sync.Mutex
	peers map[string]*proxy.Proxy // by the address that they lead to
	of    map[*proxy.Proxy]int    // the server that has it, from 1 on
}

func startEnsemble(t *testing.T, config ...string) *proxied {
	e := &proxied{t: t, peers: make(map[string]*proxy.Proxy), of: make(map[*proxy.Proxy]int)}
	t.Cleanup(func() {
		for _, p := range e.front {
			p.Close()
		}
		for _, p := range e.peers {
			p.Close()
		}
	})
	e.ZooKeepers = testserver.StartZooKeepers(t, 3, func(from, to int, address string) string {
		e.mu.Lock()
		defer e.mu.Unlock()
		p := e.peers[address]
		if p == nil {
			p = proxy.New(address, nil)
			e.peers[address], e.of[p] = p, to
		}
		return p.Addr(from)
	}, config...)
	for _, z := range e.ZooKeepers {
		e.front = append(e.front, proxy.New(z.Addr(), nil))
	}
	return e
}

// url is that of a root, through the proxies for a client.
func (e *proxied) url(client int, root string) string {
	var addrs []string
	for _, p := range e.front {
		addrs = append(addrs, p.Addr(client))
	}
	return "zk://" + strings.Join(addrs, ",") + "/" + root
}

// isolate cuts a server, from 1 on, off from the other servers.
func (e *proxied) isolate(server int) (lift func()) {
	var lifts []func()
	for p, to := range e.of {
		lifts = append(lifts, p.Impose(proxy.Rule{Cut: true,
			Only: func(from int) bool { return from == server || to == server }}))
	}
	return func() {
		for _, lift := range lifts {
			lift()
		}
	}
}

// number returns which server, from 1 on.
func (e *proxied) number(z *testserver.ZooKeeper) int {
	for i, other := range e.ZooKeepers {
		if other == z {
			return i + 1
		}
	}
	return 0
}

// settled waits until all servers serve.
func (e *proxied) settled() {
	e.t.Helper()
	var modes []string
	for deadline := time.Now().Add(hanging); time.Now().Before(deadline); {
		up := 0
		modes = nil
		for _, z := range e.ZooKeepers {
			mode := z.Mode()
			modes = append(modes, mode)
			if mode == "leader" || mode == "follower" {
				up++
			}
		}
		if up == len(e.ZooKeepers) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	e.t.Fatalf("the servers do not find together: %q", modes)
}

// eventually does an operation until it is granted. What is not known is repeated. An acquire whose
// answer was lost may have left the holder's lease, which is released first.
func eventually(t *testing.T, n *Node, r node.Request) node.Answer {
	t.Helper()
	var last any
	for deadline := time.Now().Add(hanging); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		a, err := n.Do(ctx, r)
		cancel()
		if err == nil && a.Status == node.Granted {
			return a
		}
		if last != nil && r.Op == node.Acquire && err == nil && a.Status == node.Held {
			settle(t, n, as(node.Release, r))
		}
		last = fmt.Sprintf("%+v, %v", a, err)
	}
	t.Fatalf("%v: still %v", r.Op, last)
	return node.Answer{}
}

// rounds takes and releases a name a few times, each time with a larger token.
func rounds(t *testing.T, n *Node, name string, last *fence.Token) {
	t.Helper()
	for range 5 {
		r := request(name, "round", 0)
		a := eventually(t, n, as(node.Acquire, r))
		if a.Register <= *last {
			t.Fatalf("token %d after %d", a.Register, *last)
		}
		*last = a.Register
		eventually(t, n, as(node.Extend, r))
		settle(t, n, as(node.Release, r))
	}
}

// A lease that is held outlives what happens to the servers, with its origin, and tokens grow.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := startEnsemble(t)
	begin := func(servers ...*testserver.ZooKeeper) {
		var all sync.WaitGroup
		for _, z := range servers {
			all.Go(func() {
				if err := z.Begin(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	for name, disturb := range map[string]func(leader, follower *testserver.ZooKeeper) (mend func()){
		"a follower is killed": func(_, follower *testserver.ZooKeeper) func() {
			follower.Kill()
			return func() { begin(follower) }
		},
		"the leader is killed": func(leader, _ *testserver.ZooKeeper) func() {
			leader.Kill()
			return func() { begin(leader) }
		},
		// It may believe that it leads still: what it says has to be confirmed by the others.
		"the leader is paused": func(leader, _ *testserver.ZooKeeper) func() {
			leader.Pause()
			return leader.Resume
		},
		"all are restarted": func(_, _ *testserver.ZooKeeper) func() {
			for _, z := range e.ZooKeepers {
				z.Kill()
			}
			begin(e.ZooKeepers...)
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e.settled()
			n := voting(t, e.url(1, strings.ReplaceAll(name, " ", "-")))
			var last fence.Token
			rounds(t, n, "a", &last)
			held := lasting(request("held", "me", 0), testMaxTTL)
			first := eventually(t, n, as(node.Acquire, held))
			leader := e.Leader(t)
			mend := disturb(leader, e.ZooKeepers[e.number(leader)%3])
			rounds(t, n, "a", &last)
			// Before the extension, which makes a lease that was lost anew.
			want(t, node.Held)(settle(t, n, as(node.Acquire, request("held", "rival", 0))))
			if a := eventually(t, n, as(node.Extend, held)); a.Register != first.Register {
				t.Errorf("the origin is %d, and was %d", a.Register, first.Register)
			}
			mend()
			rounds(t, n, "a", &last)
			want(t, node.Held)(settle(t, n, as(node.Acquire, request("held", "rival", 0))))
		})
	}
	t.Run("a server is cut off", func(t *testing.T) {
		e.settled()
		leader := e.number(e.Leader(t))
		// One client that knows only the server that is cut off, the leader, and one that knows all.
		lonely := open(t, "zk://"+e.front[leader-1].Addr(3)+"/cut")
		wide := open(t, e.url(3, "cut2"))
		ready(t, lonely)
		ready(t, wide)
		var last fence.Token
		rounds(t, wide, "a", &last)
		lift := e.isolate(leader)
		rounds(t, wide, "a", &last)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		a, err := lonely.Do(ctx, as(node.Acquire, request("a", "lonely", 0)))
		cancel()
		if err == nil {
			t.Errorf("a server that is cut off has answered %+v", a)
		} else if !strings.Contains(err.Error(), "no quorum") && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		t.Log(err)
		lift()
		e.settled()
		eventually(t, lonely, as(node.Acquire, request("b", "lonely", 0)))
	})
	t.Run("a follower lags", func(t *testing.T) { e.lags(t) })
	t.Run("clients live for a moment", func(t *testing.T) { e.momentary(t) })
}

// momentary has short-lived clients admit the ensemble, each at any server, while the leader is
// killed. The time counts on the servers, from the next leader on.
func (e *proxied) momentary(t *testing.T) {
	e.settled()
	url := e.url(8, "momentary")
	const maxTTL = 2 * time.Second
	began := time.Now()
	for i := range 1000 {
		n, err := Open(url)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		a, err := n.Do(ctx, as(node.Acquire, lasting(request("a", "me", 0), maxTTL)))
		cancel()
		n.Close()
		if err == nil && a.Status == node.Granted {
			if passed := time.Since(began); passed < maxTTL {
				t.Errorf("voted after %v, and the longest lease is %v", passed, maxTTL)
			}
			return
		}
		if i == 3 {
			leader := e.Leader(t)
			leader.Kill()
			if err := leader.Begin(); err != nil {
				t.Fatal(err)
			}
			e.settled()
			began = time.Now()
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("it is not admitted")
}

// settle asks until there is an answer.
func settle(t *testing.T, n *Node, r node.Request) (a node.Answer, err error) {
	for deadline := time.Now().Add(hanging); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		a, err = n.Do(ctx, r)
		cancel()
		if err == nil {
			return a, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return a, err
}

// lags has one client at a server that hears of everything late. What it reads there does not count
// before it is known to be the newest.
func (e *proxied) lags(t *testing.T) {
	e.settled()
	leader := e.number(e.Leader(t))
	late := leader%3 + 1
	at := func(server int) Option {
		return WithDial(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialTCP(ctx, e.ZooKeepers[server-1].Addr())
		})
	}
	url := e.url(7, "lags")
	n, other := voting(t, url, at(leader)), voting(t, url, at(late))
	for p, to := range e.of {
		defer p.Impose(proxy.Rule{Only: func(from int) bool { return from == late || to == late },
			To: proxy.Effect{Delay: 100 * time.Millisecond}, From: proxy.Effect{Delay: 100 * time.Millisecond}})()
	}
	for i := range 3 {
		name := fmt.Sprint("name ", i)
		r := request(name, "me", 0)
		first := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
		want(t, node.Held)(other.Do(t.Context(), as(node.Acquire, request(name, "rival", 0))))
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
		if l, err := other.Inspect(t.Context(), name); err != nil || l.Leased {
			t.Errorf("inspected %+v, %v; it was released", l, err)
		}
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
		rival := request(name, "rival", 0)
		a := want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, rival)))
		if a.Register != first.Register+2 {
			t.Errorf("token %d after %d and another one", a.Register, first.Register)
		}
		// The other way round the release is certain before it is read.
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, rival)))
		want(t, node.Granted)(settle(t, n, as(node.Extend, r)))
		want(t, node.Lost)(settle(t, other, as(node.Extend, rival)))
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
		want(t, node.Granted)(settle(t, other, as(node.Extend, rival)))
		want(t, node.Granted)(other.Do(t.Context(), as(node.Release, rival)))
	}
}
