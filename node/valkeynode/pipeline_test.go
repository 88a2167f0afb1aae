package valkeynode_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// call waits for a request that was started.
type call struct {
	gone   atomic.Bool
	done   chan struct{}
	times  atomic.Int32
	answer node.Answer
	err    error
}

func (c *call) Wanted() bool { return !c.gone.Load() }

func (c *call) Done(answer node.Answer, err error) {
	if c.times.Add(1) == 1 {
		c.answer, c.err = answer, err
		close(c.done)
	}
}

func start(n *valkeynode.Node, op node.Op, r node.Request, timeout time.Duration) *call {
	c := &call{done: make(chan struct{})}
	n.Start(as(op, r), timeout, c)
	return c
}

// wait returns the outcome. The bound is for a hung test.
func (c *call) wait(t testing.TB) (node.Answer, error) {
	t.Helper()
	select {
	case <-c.done:
		return c.answer, c.err
	case <-time.After(3 * time.Minute):
		t.Fatal("no outcome")
	}
	panic("unreachable")
}

// Requests that are not waited for any more are not sent when a hung server wakes up. Those of a
// connection that was lost are told so, and then all is as before.
func TestStartedRequestsAndAHungServer(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		server.Pause()
		stuck := start(n, node.Acquire, request("orders/42", "one"), 100*time.Millisecond)
		time.Sleep(50 * time.Millisecond) // so that this one is on its way
		var late []*call
		for i := range 1000 {
			late = append(late, start(n, node.Acquire, request("orders/42", fmt.Sprint(i+2)), 100*time.Millisecond))
		}
		for _, c := range late {
			c.gone.Store(true)
		}
		// The client library closes a connection that answers nothing.
		if _, err := stuck.wait(t); err == nil {
			t.Error("a hung server answered")
		}
		server.Resume()
		eventually(t, func() error {
			a, err := start(n, node.Acquire, long("another", "me"), 5*time.Second).wait(t)
			if err == nil && a.Status != node.Granted && a.Status != node.Held {
				err = fmt.Errorf("answered %+v", a)
			}
			return err
		})
		for i, c := range late {
			select {
			case <-c.done:
				if c.err == nil {
					t.Errorf("request %d was carried out, although nobody wanted it: %+v", i, c.answer)
				}
			default:
			}
		}
		if times := stuck.times.Load(); times != 1 {
			t.Errorf("one request had %d outcomes", times)
		}
	})
}

// Close ends what was started, also what was not sent, and nothing is started
// afterwards.
func TestCloseEndsStartedRequests(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		server.Pause()
		defer server.Resume()
		var calls []*call
		var mu sync.Mutex
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				for range 50 {
					c := start(n, node.Acquire, request(fmt.Sprint("name ", i), "me"), 10*time.Second)
					mu.Lock()
					calls = append(calls, c)
					mu.Unlock()
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		n.Close()
		wait.Wait()
		for _, c := range calls {
			if a, err := c.wait(t); err == nil {
				t.Errorf("answered %+v by a node that is closed", a)
			}
		}
	})
}
