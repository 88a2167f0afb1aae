package transport

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Where a route leads next, after what was said on the connection before.
func TestRoute(t *testing.T) {
	r := &route{seeds: []string{"a:1", "b:1"}}
	say := func(text string) {
		t.Helper()
		reply := resp.Failure(resp.Error(text))
		r.heed(resp.Command{"HMGET"}, &reply)
	}
	next := func(want string) {
		t.Helper()
		if got := r.next(); got != want {
			t.Errorf("the next is %s; want %s", got, want)
		}
		if !r.leads() {
			t.Errorf("a new connection to %s is said to lead elsewhere", want)
		}
	}
	next("a:1")
	next("b:1") // a could not be reached
	say("MOVED 866 c:1")
	if r.leads() {
		t.Error("a connection to a member without the slot is said to lead to it")
	}
	next("c:1")
	r.settle()
	next("c:1") // it was lost, and is tried once more
	next("a:1")
	say("MOVED 866 c:1")
	next("c:1")
	r.settle()
	say("MOVED 866 c:1") // of an older connection
	if !r.leads() {
		t.Error("the owner was left for itself")
	}
	say("TRYAGAIN Multiple keys request during rehashing of slot")
	say("ASK 866 b:1")
	say("NOPERM this user has no permissions")
	if !r.leads() {
		t.Error("the owner was left for what it said")
	}
	say("CLUSTERDOWN The cluster is down")
	if r.leads() {
		t.Error("a member that has lost the others is not left")
	}
	r.settle() // by an answer that is older
	next("b:1")
	members := resp.Text("txt:07c37dfeb235213a872192d90877d0cd55635b91 10.0.0.1:7001@17001,d.example,shard-id=1 master - 0 0 1 connected\n" +
		"17c37dfeb235213a872192d90877d0cd55635b91 a:1@10001 slave 07c37dfeb235213a872192d90877d0cd55635b91 0 0 1 connected\n" +
		"27c37dfeb235213a872192d90877d0cd55635b91 :0@0 master,noaddr - 0 0 1 disconnected\n" +
		"37c37dfeb235213a872192d90877d0cd55635b91 ::1:7002@17002 master - 0 0 1 connected\n")
	r.heed(resp.Command{"CLUSTER", "NODES"}, &members)
	for _, want := range []string{"a:1", "b:1", "d.example:7001", "[::1]:7002"} {
		next(want)
	}
}

func TestRedirections(t *testing.T) {
	for _, c := range []struct{ to, want string }{
		{"127.0.0.1:7001", "127.0.0.1:7001"}, {"::1:7001", "[::1]:7001"}, {"node.example:7001", "node.example:7001"},
		{":7001", "here:7001"}, {"?:7001", ""}, {"", ""}, {"nonsense", ""},
	} {
		if got := redirected(c.to, "here:1"); got != c.want {
			t.Errorf("%q: %q; want %q", c.to, got, c.want)
		}
	}
}

// A round tries each address once. Of its errors the first that waiting does not mend counts.
func TestRoundOfARoute(t *testing.T) {
	noTLS, down := engine.Misconfiguredf("no TLS"), errors.New("connection refused")
	for _, c := range []struct {
		name string
		says map[string]error
		want error
	}{
		{"none speaks TLS", map[string]error{"a:1": noTLS, "b:1": engine.Misconfiguredf("another"), "c:1": noTLS}, noTLS},
		{"some are down", map[string]error{"a:1": down, "b:1": noTLS, "c:1": down}, noTLS},
		{"all are down", map[string]error{"a:1": down, "b:1": down, "c:1": down}, down},
	} {
		r := &route{seeds: []string{"a:1", "b:1"}, known: []string{"c:1"}, target: "b:1"}
		if c.name == "none speaks TLS" {
			r.target = "a:1"
		}
		var tried []string
		_, err := r.dial(t.Context(), func(address string) (net.Conn, error) {
			tried = append(tried, address)
			return nil, c.says[address]
		})
		slices.Sort(tried)
		if err != c.want || !slices.Equal(tried, []string{"a:1", "b:1", "c:1"}) || r.fruitless() != 1 {
			t.Errorf("%s: %v, tried %q in %d rounds", c.name, err, tried, r.fruitless())
		}
	}
}

// After looks in vain the route rests, longer each time, and says meanwhile what the servers said.
func TestRestOfARoute(t *testing.T) {
	r := &route{seeds: []string{"a:1"}}
	down, moved := resp.Error("CLUSTERDOWN Hash slot not served"), resp.Error("MOVED 1 b:1")
	cut := errors.New("closed")
	if err := graver(graver(graver(nil, moved), down), moved); err != down {
		t.Errorf("what was said is %v", err)
	}
	if err := graver(graver(down, cut), nil); err != down {
		t.Errorf("after a connection was cut: %v", err)
	}
	now := time.Now()
	rest := shortestRest
	for range 6 {
		if err := r.inVain(down, cut, now); err != down {
			t.Errorf("it ends with %v", err)
		}
		if err := r.rests(now.Add(rest - 1)); err != down {
			t.Errorf("%v after: %v", rest-1, err)
		}
		if err := r.rests(now.Add(rest)); err != nil {
			t.Errorf("%v after: %v", rest, err)
		}
		rest = min(2*rest, longestRest)
	}
	r.settle()
	if err := r.rests(now); err != nil {
		t.Errorf("the owner was found: %v", err)
	}
	if wrong := engine.Misconfiguredf("no TLS"); r.inVain(moved, wrong, now) != wrong {
		t.Error("what waiting does not mend is hidden by a redirection")
	}
}
