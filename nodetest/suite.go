package nodetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Leases of ttl long are there for as long as a test can take, on a slow
// machine under the race detector too. Those of ttl short are only ever waited out:
// no test assumes that one is still there.
const (
	long  = 2 * time.Minute
	short = 50 * time.Millisecond
)

// suite is one subtest's view of the engine.
type suite struct {
	*testing.T
	ctx         context.Context
	node, other *watched
	wait        func(time.Duration)
	fast        bool             // wait costs no real time
	reboot      func() node.Node // nil: its clock does not begin anew
	patience    time.Duration
	fail        func(format string, args ...any) // Fatalf, or failf of a queueSuite
	start       bool                             // operations are started, see node.Starter

	mu  sync.Mutex
	ids []string // of holders: the identities that were handed to either client so far
}

// outwait lets a lease of ttl short end. Half as much again is for stores that
// look at their clock now and then.
func (s *suite) outwait() { s.wait(short + short/2) }

// request is one holder's request, with ttl long.
func request(name, label string, token fence.Token) node.Request {
	return lasting(Request(name, label, token), long)
}

// takes has the first client acquire a name.
func (s *suite) takes(name, label string, token fence.Token) node.Request {
	s.Helper()
	r := request(name, label, token)
	s.want(node.Granted)(s.node.Acquire(s.ctx, r))
	return r
}

// outlives has the first client acquire a name, and lets the lease end. The request
// that it returns is for a longer one.
func (s *suite) outlives(name, label string, token fence.Token) node.Request {
	s.Helper()
	r := request(name, label, token)
	s.want(node.Granted)(s.node.Acquire(s.ctx, lasting(r, short)))
	s.outwait()
	return r
}

// with returns the request for another token.
func with(r node.Request, token fence.Token) node.Request {
	r.Token = token
	return r
}

// lasting returns the request for another ttl.
func lasting(r node.Request, ttl time.Duration) node.Request {
	r.TTL = ttl
	return r
}

// want returns a check of an operation's result, for use around its call. The
// test ends if the answer is another one.
func (s *suite) want(status node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		s.Helper()
		if err != nil {
			s.Fatalf("no answer: %v; want %v", err, status)
		}
		if a.Status != status {
			s.fail("answered %+v; want %v", a, status)
		}
		return a
	}
}

// invalid is such a check, that an operation was refused as malformed.
func (s *suite) invalid(what string, of any) func(node.Answer, error) {
	return func(a node.Answer, err error) {
		s.Helper()
		if !errors.Is(err, node.ErrInvalid) {
			s.fail("%s %v: %+v, %v; want ErrInvalid", what, of, a, err)
		}
	}
}

// register checks the number that an answer carries.
func (s *suite) register(a node.Answer, want fence.Token) {
	s.Helper()
	if a.Register != want {
		s.Fatalf("the answer %+v carries register %d; want %d", a, a.Register, want)
	}
}

// inspect returns what a client sees of a name.
func (s *suite) inspect(client *watched, name string) node.Lease {
	s.Helper()
	l, err := client.Inspect(s.ctx, name)
	if err != nil {
		s.Fatalf("inspect %q: %v", name, err)
	}
	return l
}

// leased checks what the second client sees of a name. The label "" with remaining false means that
// it is free.
func (s *suite) leased(name, label string, remaining bool, register fence.Token) {
	s.Helper()
	l := s.inspect(s.other, name)
	if l.Name != name || l.Label != label || l.Register != register || (l.Remaining != 0) != remaining {
		s.Fatalf("inspect %q: %+v; want label %q, leased %v, register %d", name, l, label, remaining, register)
	}
	if remaining {
		s.plausible(l.Remaining)
	}
}

// plausible checks the time that a lease of ttl long has left. The lower bound
// catches a wrong unit, not a slow machine.
func (s *suite) plausible(remaining time.Duration) {
	s.Helper()
	if remaining <= long/60 || remaining > long {
		s.Fatalf("%v remain of a lease of %v", remaining, long)
	}
}

// sameStripe returns n names that share a register, and one that does not.
func sameStripe(prefix string, n int) (same []string, different string) {
	stripe := node.Stripe(prefix)
	same = []string{prefix}
	for i := 0; len(same) < n || different == ""; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		if node.Stripe(name) != stripe {
			different = name
		} else if len(same) < n {
			same = append(same, name)
		}
	}
	return same, different
}

// noLeak fails the test if it leaves goroutines behind. It must come before
// whatever starts them, because clean-ups run in reverse.
func noLeak(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		// Goroutines end a little after the call that ended them.
		for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<16)
				t.Errorf("%d goroutines, %d before the test; after both nodes were closed:\n%s",
					runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				return
			}
		}
	})
}
