package valkeynode_test

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// A Locker that is closed does not wait for a server that hangs since before it was
// reached: nothing was sent there. What the others were sent is answered first.
func TestCloseDoesNotWaitForAServerThatHangs(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 3)
		var nodes []node.Node
		for _, s := range servers {
			s.MarkAdmitted("fenlock:", time.Hour)
			nodes = append(nodes, open(t, s.URL()))
		}
		servers[2].Pause()
		// The node timeout is longer than a test may take.
		l, err := fenlock.New(fenlock.Config{Nodes: nodes, TTL: time.Hour, MaxTTL: time.Hour, NodeTimeout: 15 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		lock, err := l.Acquire(bounded(t), "a")
		if err == nil {
			err = lock.Release(bounded(t))
		}
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- l.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute): // a hung test
			t.Fatal("Close waits for a node timeout")
		}
		servers[2].Resume()
		for i, s := range servers {
			if got := s.Do("EXISTS", "fenlock:a"); got != "0" {
				t.Errorf("server %d still has the lease", i)
			}
		}
	})
}
