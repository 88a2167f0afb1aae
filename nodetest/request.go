package nodetest

import (
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Request returns the request of a new holder, for an engine's own tests: As gives it an operation.
// Its TTL is a minute.
func Request(name, label string, token fence.Token) node.Request {
	return node.Request{Name: name, Holder: node.NewHolder([node.IDLength]byte([]byte(identity())), time.Now(), 0, label),
		TTL: time.Minute, Token: token}
}

// identity returns random digits, as a holder or a client has them.
func identity() string {
	id := make([]byte, 16)
	rand.Read(id)
	return hex.EncodeToString(id)
}

// As returns the request for an operation.
func As(op node.Op, r node.Request) node.Request {
	r.Op = op
	return r
}

// Want returns a check of an operation's result, for use around its call, which returns the answer.
// An error, or an answer with another status, ends the test.
func Want(t testing.TB, status node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		t.Helper()
		if err != nil || a.Status != status {
			t.Fatalf("got %+v, %v; want %v", a, err, status)
		}
		return a
	}
}
