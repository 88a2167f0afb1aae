package valkeynode_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// groupTTL is a short longest lease, so that a quarantine passes quickly. The
// real default, 30 s, is a matter of arithmetic, and tested as such.
const groupTTL = 500 * time.Millisecond

const registersKey = "fenlock-registers:fenlock:"

// warnings collects what nodes tell their group.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (w *warnings) add(n node.Node, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%s: %s", n, message))
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.lines...)
}

func open(t testing.TB, url string, options ...valkeynode.Option) *valkeynode.Node {
	t.Helper()
	n, err := valkeynode.Open(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// each runs a test on each kind of server, beside others: they wait for servers most of their time.
func each(t *testing.T, test func(t *testing.T, kind testserver.Kind)) {
	t.Helper()
	t.Parallel()
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		test(t, kind)
	})
}

// admitted starts a server that is admitted with a longest lease, and opens it as a node
// that has served.
func admitted(t *testing.T, kind testserver.Kind, maxTTL time.Duration, config ...string) (*testserver.Server,
	*valkeynode.Node) {
	t.Helper()
	s := testserver.Start(t, kind, config...)
	s.MarkAdmitted("fenlock:", maxTTL)
	n := joined(t, s.URL(), maxTTL)
	granted(t, n, "before")
	return s, n
}

// want checks the status of an answer.
func want(t testing.TB, status node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		t.Helper()
		if err != nil || a.Status != status {
			t.Fatalf("%+v, %v; want %v", a, err, status)
		}
		return a
	}
}

// granted has a node grant a name, without a place.
func granted(t testing.TB, n node.Node, name string) node.Request {
	t.Helper()
	r := request(name, "holder of "+name)
	r.Token = want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, r))).Register
	return r
}

// openGroup opens one node per server and joins them.
func openGroup(t testing.TB, servers []*testserver.Server, options ...valkeynode.Option) ([]*valkeynode.Node,
	*warnings) {
	t.Helper()
	var nodes []*valkeynode.Node
	var all []node.Node
	for _, s := range servers {
		n := open(t, s.URL(), options...)
		nodes, all = append(nodes, n), append(all, n)
	}
	w := &warnings{}
	for _, n := range nodes {
		if err := n.Join(node.Group{Nodes: all, MaxTTL: groupTTL, Warn: w.add}); err != nil {
			t.Fatal(err)
		}
	}
	return nodes, w
}

// acquire asks until the node is admitted.
func acquire(t testing.TB, n node.Node, r node.Request) node.Answer {
	t.Helper()
	var answer node.Answer
	eventually(t, func() error {
		var err error
		answer, err = n.Do(bounded(t), as(node.Acquire, r))
		if err == nil && answer.Status == node.Rejoining {
			err = fmt.Errorf("rejoining: %v", answer.Absence)
		}
		return err
	})
	return answer
}

// eventually tries again until there is no error. The bound is for a hung test,
// not a claim about speed.
func eventually(t testing.TB, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("never: %v", err)
}

// bounded returns a context that ends with the test, or when it hangs.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// follow makes a server the replica of another, and waits until it is one.
func follow(t testing.TB, s, primary *testserver.Server) {
	t.Helper()
	host, port, _ := strings.Cut(primary.Addr(), ":")
	s.Do("REPLICAOF", host, port)
	eventually(t, func() error {
		if infoField(t, s, "master_link_status") != "up" {
			return errors.New("not in step yet")
		}
		return nil
	})
}

func request(name, holder string) node.Request {
	return node.Request{Name: name, Holder: node.Holder(fmt.Sprintf("%032x:%s", holder, holder)), TTL: groupTTL, Token: 1}
}

// long is a request for a minute.
func long(name, holder string) node.Request {
	r := request(name, holder)
	r.TTL = time.Minute
	return r
}

// as is the request for an operation.
func as(op node.Op, r node.Request) node.Request {
	r.Op = op
	return r
}
