package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// The errors that a caller decides by are different from each other.
func TestSentinelsMatchThemselvesOnly(t *testing.T) {
	all := []error{fenlock.ErrHeld, fenlock.ErrNoQuorum, fenlock.ErrLost, fenlock.ErrMaxHold, fenlock.ErrReleased,
		fenlock.ErrInvalid, fenlock.ErrMisconfigured, fenlock.ErrClosed, &fenlock.HeldError{}, &fenlock.QuorumError{}}
	for i, a := range all[:8] {
		for j, b := range all {
			want := i == j || i == 0 && j == 8 || i == 1 && j == 9
			if got := errors.Is(b, a); got != want {
				t.Errorf("errors.Is(%v, %v) is %v", b, a, got)
			}
		}
	}
}

func TestHeldErrorText(t *testing.T) {
	for want, e := range map[string]fenlock.HeldError{
		`fenlock: "a\nb" is held`:        {Name: "a\nb"},
		`fenlock: "x" is held by host/1`: {Name: "x", HeldBy: "host/1"},
		`fenlock: "x" is held by host/1 (its lease ends in 1.235s unless extended)`: {Name: "x", HeldBy: "host/1",
			RetryAfter: 1234567 * time.Microsecond},
		`fenlock: "x" is held (its lease ends in 2s unless extended)`: {Name: "x", RetryAfter: 2 * time.Second},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestQuorumErrorText(t *testing.T) {
	e := &fenlock.QuorumError{Op: "acquire", Name: "x", Nodes: 3, Need: 2, Errors: []fenlock.NodeError{
		{Node: "a:6379", Err: errDown}, {Node: "b:6379", Err: errors.New("no answer within 1s")}}}
	want := `fenlock: acquire "x": no quorum: 2 of 3 nodes are missing, 2 are needed; a:6379: connection refused; b:6379: no answer within 1s`
	if e.Error() != want {
		t.Errorf("got  %s\nwant %s", e, want)
	}
	wantErr(t, e, fenlock.ErrNoQuorum, errDown)
	// A message that happens to begin with the node's name does not name it.
	e.Errors = []fenlock.NodeError{{Node: "c", Err: errDown}}
	if !strings.HasSuffix(e.Error(), "; c: connection refused") {
		t.Errorf("node c is not named: %s", e)
	}
	// One node is not counted.
	e.Nodes, e.Need = 1, 1
	if want := `fenlock: acquire "x": c: connection refused`; e.Error() != want {
		t.Errorf("got  %s\nwant %s", e, want)
	}
}

// Neither a lock that is printed nor an error of one shows the identity that is
// on the nodes.
func TestLocksAndErrorsDoNotPrintTheIdentity(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		holders := make(chan node.Holder, 100)
		for _, f := range c.nodes {
			f.seen = func(r node.Request) { holders <- r.Holder }
		}
		lock := c.held()
		id := string(<-holders)[:32]
		want := func(how, text string) {
			t.Helper()
			if strings.Contains(strings.ToLower(text), id) || strings.Contains(text, fmt.Sprintf("%x", id)) {
				t.Errorf("%s prints the identity: %.60s...", how, text)
			}
		}
		_, err := c.locker(label("other")).TryAcquire(t.Context(), name)
		want("ErrHeld", fmt.Sprintf("%v %+v %#v", err, err, err))
		c.set(0, 2, extend, down)
		err = lock.Extend(t.Context())
		want("ErrNoQuorum", fmt.Sprintf("%v %+v %#v", err, err, err))
		time.Sleep(validity)
		want("ErrLost", fmt.Sprintf("%+v", context.Cause(lock.Context())))
		err = lock.Release(t.Context())
		want("Release", fmt.Sprintf("%v %+v", err, err))
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			want("a lock with "+verb, fmt.Sprintf(verb, lock))
		}
	})
}
