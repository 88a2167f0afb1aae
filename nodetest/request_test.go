package nodetest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
)

// fatal is a test that ends by a panic.
type fatal struct{ testing.TB }

func (fatal) Helper()                           {}
func (fatal) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestWant(t *testing.T) {
	r := nodetest.As(node.Extend, nodetest.Request("a", "me", 7))
	if other := nodetest.Request("a", "me", 7); r.Op != node.Extend || r.Name != "a" || r.Token != 7 ||
		r.TTL <= 0 || r.Holder.Label() != "me" || other.Holder == r.Holder {
		t.Errorf("%+v, and another one is %+v", r, other)
	}
	ends := func(a node.Answer, err error) (ended bool) {
		defer func() { ended = recover() != nil }()
		if got := nodetest.Want(fatal{t}, node.Held)(a, err); got.Status != node.Held {
			t.Errorf("it returns %+v", got)
		}
		return false
	}
	held, free := node.Answer{Status: node.Held}, node.Answer{Status: node.Granted}
	if ends(held, nil) || !ends(free, nil) || !ends(held, errors.New("no answer")) {
		t.Error("another answer does not end the test, or the right one does")
	}
}
