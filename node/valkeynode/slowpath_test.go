package valkeynode_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// Requests that wait for a connection keep the order of their name. Those that come when it is
// there do not overtake them: a lease that was granted is there when its release comes.
func TestOrderWhileConnecting(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		for round := range 20 {
			server.Do("CLIENT", "KILL", "TYPE", "normal")
			var acquired, released []*call
			for i := range 50 {
				r := long(fmt.Sprintf("name %d of %d", i, round), "me")
				acquired = append(acquired, start(n, node.Acquire, r, 10*time.Second))
				if i%10 == 0 {
					time.Sleep(time.Duration(round) * 20 * time.Microsecond)
				}
				released = append(released, start(n, node.Release, r, 10*time.Second))
			}
			for i := range acquired {
				a, err := acquired[i].wait(t)
				b, errReleased := released[i].wait(t)
				if err != nil || errReleased != nil {
					continue // the connection was lost under it
				}
				if a.Status != node.Granted || b.Status != node.Granted {
					t.Fatalf("round %d, name %d: acquire %+v, release %+v", round, i, a, b)
				}
			}
		}
	})
}

// A server refuses an acquire, since the client does not know yet as what it was
// admitted, and carries out the release behind it. The acquire must not be made after
// that, though it would be granted.
func TestOrderWhereAReleaseWasCarriedOut(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := readmitted(t, kind)
		one, two := long("orders/42", "one"), long("orders/42", "two")
		var all []starting
		for _, s := range []struct {
			op node.Op
			r  node.Request
		}{{node.Acquire, one}, {node.Release, one}, {node.Acquire, two}} {
			all = append(all, starting{as(s.op, s.r), &call{done: make(chan struct{})}})
		}
		sendTogether(n, 10*time.Second, all...)
		for i, want := range []node.Status{node.Rejoining, node.Lost, node.Granted} {
			if a, err := all[i].call.(*call).wait(t); err != nil || a.Status != want {
				t.Errorf("request %d: %+v, %v; want %v", i, a, err, want)
			}
		}
		if left := server.Do("GET", "fenlock:orders/42"); !strings.HasPrefix(left, string(two.Holder)+" ") {
			t.Errorf("the lease is %s", left)
		}
	})
}

// A request that waits for a connection is not made when it is not wanted any more.
func TestUnwantedOnTheSlowPath(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind)
		server.MarkAdmitted("fenlock:", time.Minute)
		n := joined(t, server.URL(), time.Minute)
		server.Pause()
		r := long("orders/42", "me")
		c := start(n, node.Acquire, r, 10*time.Second)
		time.Sleep(20 * time.Millisecond)
		c.gone.Store(true)
		server.Resume()
		// It goes after the acquire.
		want(t, node.Lost)(start(n, node.Release, r, 10*time.Second).wait(t))
		if a, err := c.wait(t); err == nil {
			t.Errorf("the acquire was made: %+v", a)
		}
	})
}
