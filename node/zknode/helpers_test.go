package zknode

import (
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

func identity() string {
	id := make([]byte, 16)
	rand.Read(id)
	return hex.EncodeToString(id)
}

func request(name, label string, token fence.Token) node.Request {
	return node.Request{Name: name, Holder: node.NewHolder([node.IDLength]byte([]byte(identity())), time.Now(), 0, label),
		TTL: time.Minute, Token: token}
}

// as is the request for an operation.
func as(op node.Op, r node.Request) node.Request {
	r.Op = op
	return r
}

func lasting(r node.Request, ttl time.Duration) node.Request {
	r.TTL = ttl
	return r
}

func want(t testing.TB, status node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		t.Helper()
		if err != nil || a.Status != status {
			t.Fatalf("got %+v, %v; want %v", a, err, status)
		}
		return a
	}
}
