//go:build unix

package etcdnode_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/etcdnode"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A node on a client of the caller's does all that a node at a URL does, and leaves the client
// open.
func TestGivenClient(t *testing.T) {
	c := raw(t, shared())
	warm, err := c.Get(t.Context(), "x") // its goroutines are not the node's
	if err != nil || warm == nil {
		t.Fatal(err)
	}
	url := fresh()
	prefix := url[strings.Index(url, "/test/"):] + "/"
	n, err := etcdnode.New(c, prefix)
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, url)
	join(t, n, longest, true)
	await(t, n)
	held := request(node.Acquire, "a", "1", time.Minute)
	must(t, n, held, node.Granted)
	must(t, other, request(node.Acquire, "a", "2", time.Minute), node.Held)
	told := make(chan string, 1)
	if err := other.Listen(t.Context(), client1, func(w string) { told <- w }); err != nil {
		t.Fatal(err)
	}
	waiting := request(node.Acquire, "a", "2", time.Minute)
	waiting.Place = node.Place{Waiter: client1 + ":1", Stamp: 1000}
	must(t, other, waiting, node.Held)
	must(t, n, as(node.Release, held), node.Granted)
	if w := <-told; w != waiting.Place.Waiter {
		t.Errorf("told %q", w)
	}
	n.Close()
	if _, err := c.Get(t.Context(), "x"); err != nil {
		t.Errorf("the client was closed: %v", err)
	}
}

func TestGivenClientIsRefused(t *testing.T) {
	closed := raw(t, shared())
	closed.Close()
	good := raw(t, shared())
	for _, c := range []struct {
		client *clientv3.Client
		prefix string
	}{{nil, ""}, {new(clientv3.Client), ""}, {closed, ""}, {good, "no-slash"}} {
		if n, err := etcdnode.New(c.client, c.prefix); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%v, %v; want ErrInvalid", n, err)
		}
	}
}

func TestExamine(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 3)
	n := open(t, "etcd://"+e.Addrs())
	look := node.Look{MaxTTL: longest, Thorough: true}
	got, err := n.Examine(within(t, 20*time.Second), look)
	if err != nil || got.Admitted || got.Wait != admit.Quarantine(longest) || !got.Rebuild ||
		!strings.Contains(got.Why, "new to it") {
		t.Errorf("never used: %+v, %v", got, err)
	}
	await(t, n)
	must(t, n, request(node.Acquire, "a", "1", time.Minute), node.Granted)
	got, err = n.Examine(within(t, 20*time.Second), look)
	if err != nil || !got.Admitted || got.Product != "etcd" || !strings.HasPrefix(got.Version, "3.") || got.Server == "" ||
		got.Memory == "" || got.RoundTrip <= 0 || got.MaxTTL != longest {
		t.Errorf("in use: %+v, %v", got, err)
	}
	checks := func() (all []string) {
		for _, f := range got.Findings {
			all = append(all, f.Check)
		}
		return all
	}
	if all := strings.Join(checks(), " "); all != "access" {
		t.Errorf("found %q: %+v", all, got.Findings)
	}
	if _, err := raw(t, e).Put(within(t, time.Minute), etcdnode.DefaultPrefix+"stripe/x", "?"); err != nil {
		t.Fatal(err)
	}
	for _, m := range e.Members[1:2] {
		m.Kill()
	}
	eventually(t, func() error {
		got, err = n.Examine(within(t, 20*time.Second), look)
		return err
	})
	if all := strings.Join(checks(), " "); all != "access member damage" {
		t.Errorf("with a member down and a damaged lease: %q: %+v", all, got.Findings)
	}
	for _, m := range e.Members {
		m.Kill()
	}
	if got, err = n.Examine(within(t, 2*time.Second), look); err == nil ||
		!strings.Contains(err.Error(), e.Members[0].Addr()) {
		t.Errorf("with nobody there: %+v, %v", got, err)
	}
	t.Log(err)
}
