//go:build unix

package etcdnode_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/etcdnode"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const client1 = "0123456789abcdef0123456789abcdef"

// request is one holder's request.
func request(op node.Op, name, label string, ttl time.Duration) node.Request {
	id := strings.Repeat("0", node.IDLength-len(label)) + fmt.Sprintf("%x", label)
	return node.Request{Op: op, Name: name,
		Holder: node.NewHolder([node.IDLength]byte([]byte(id[len(id)-node.IDLength:])), time.Now(), 0, label), TTL: ttl,
		Token: fence.Token(time.Now().UnixMicro())}
}

func as(op node.Op, r node.Request) node.Request {
	r.Op = op
	return r
}

// within returns a context with the time that a request has.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// must carries out a request that has to succeed with an answer.
func must(t testing.TB, n *etcdnode.Node, r node.Request, want node.Status) node.Answer {
	t.Helper()
	a, err := n.Do(within(t, 20*time.Second), r)
	if err != nil || a.Status != want {
		t.Fatalf("%v: %+v, %v; want %v", r.Op, a, err, want)
	}
	return a
}

// eventually repeats until f returns nil.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(50 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("never: %v", err)
}

// raw returns a client of etcd's, which tests look with.
func raw(t testing.TB, e *testserver.Etcd) *clientv3.Client {
	t.Helper()
	var endpoints []string
	for _, m := range e.Members {
		endpoints = append(endpoints, "http://"+m.Addr())
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// leader returns the member that leads.
func leader(t testing.TB, e *testserver.Etcd) *testserver.EtcdMember {
	t.Helper()
	c := raw(t, e)
	var found *testserver.EtcdMember
	eventually(t, func() error {
		for _, m := range e.Members {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			s, err := c.Status(ctx, "http://"+m.Addr())
			cancel()
			if err == nil && s.Leader == s.Header.MemberId {
				found = m
				return nil
			}
		}
		return fmt.Errorf("nobody leads")
	})
	return found
}

// locker is a process with a node of its own.
func locker(t testing.TB, url string, ttl time.Duration) *fenlock.Locker {
	t.Helper()
	n, err := etcdnode.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, TTL: ttl, NodeTimeout: ttl / 5, NewServers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); n.Close() })
	return l
}
