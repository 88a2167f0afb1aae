package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// silent is a node.Ordered that executes what it is asked and keeps the outcomes to
// itself until it is told to tell them.
type silent struct {
	fenlock.Node
	mu   sync.Mutex
	mute bool
	kept []func()
}

func (s *silent) InOrder() bool { return true }

func (s *silent) Start(r node.Request, _ time.Duration, call node.Call) {
	answer, err := s.Node.Do(context.Background(), r)
	s.mu.Lock()
	mute := s.mute
	if mute {
		s.kept = append(s.kept, func() {
			if call.Wanted() {
				panic("a call that has no time left is wanted")
			}
			call.Done(answer, err)
		})
	}
	s.mu.Unlock()
	if !mute {
		call.Done(answer, err) // before Start has returned
	}
}

func (s *silent) be(mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = mute
}

func (s *silent) tell() {
	s.mu.Lock()
	kept := s.kept
	s.kept = nil
	s.mu.Unlock()
	for _, tell := range kept {
		tell()
	}
}

// silents returns a Locker of n silent nodes.
func silents(t *testing.T, n int) (*fenlock.Locker, []*silent) {
	t.Helper()
	start := time.Now()
	now := func() time.Duration { return time.Since(start) + time.Hour }
	config := fenlock.Config{TTL: 10 * time.Second, NodeTimeout: time.Second, Clock: now}
	var nodes []*silent
	for i := range n {
		s := &silent{Node: memnode.New(fmt.Sprint("node ", i), memnode.WithClock(now))}
		nodes = append(nodes, s)
		config.Nodes = append(config.Nodes, s)
	}
	l, err := fenlock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return l, nodes
}

// A Starter that answers nothing costs a node timeout, and its late answers change
// nothing.
func TestStartersHaveATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := silents(t, 3)
		for _, n := range nodes[1:] {
			n.be(true)
		}
		begin := time.Now()
		_, err := l.TryAcquire(t.Context(), "x")
		if took := time.Since(begin); took != time.Second {
			t.Errorf("gave up after %v", took)
		}
		if !errors.Is(err, fenlock.ErrNoQuorum) || strings.Count(fmt.Sprint(err), "no answer within 1s") != 2 {
			t.Errorf("%v", err)
		}
		// What was granted is being released there, to the same silence.
		time.Sleep(2 * time.Second)
		for _, n := range nodes[1:] {
			n.be(false)
			n.tell()
		}
		lock, err := l.TryAcquire(t.Context(), "x")
		if err != nil {
			t.Fatalf("after the releases: %v", err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if n := fenlock.InFlight(l); n != 0 {
			t.Errorf("%d fanouts have not ended", n)
		}
		l.Close()
	})
}

// Time limits go by the order of their beginnings, whatever ends in between.
func TestStartersTimeLimitsAreEachTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := silents(t, 1)
		nodes[0].be(true)
		var took []time.Duration
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 5 {
			time.Sleep(300 * time.Millisecond)
			if i == 2 { // this one is answered
				nodes[0].be(false)
				lock, err := l.TryAcquire(t.Context(), "answered")
				if err != nil {
					t.Fatal(err)
				}
				defer lock.Release(context.Background())
				nodes[0].be(true)
				continue
			}
			wg.Go(func() {
				begin := time.Now()
				if _, err := l.TryAcquire(t.Context(), fmt.Sprint("x", i)); !errors.Is(err, fenlock.ErrNoQuorum) {
					t.Error(err)
				}
				mu.Lock()
				took = append(took, time.Since(begin))
				mu.Unlock()
			})
		}
		wg.Wait()
		for _, d := range took {
			if d != time.Second {
				t.Errorf("gave up after %v", took)
				break
			}
		}
		nodes[0].be(false)
		time.Sleep(2 * time.Second)
		if n := fenlock.InFlight(l); n != 0 {
			t.Errorf("%d fanouts have not ended", n)
		}
	})
}

// Close waits for what was started as for any request.
func TestCloseWaitsForStarters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := silents(t, 1)
		nodes[0].be(true)
		go l.TryAcquire(context.Background(), "x")
		time.Sleep(400 * time.Millisecond)
		begin := time.Now()
		l.Close()
		// The acquire has 600 ms left, its release another second.
		if took := time.Since(begin); took != 1600*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		nodes[0].tell()
	})
}

// cancelling is a node.Ordered that cancels the acquirer's context in the moment in which
// it grants, and does not answer a release.
type cancelling struct {
	fenlock.Node
	cancel context.CancelFunc
}

func (c *cancelling) InOrder() bool { return true }

func (c *cancelling) Start(r node.Request, _ time.Duration, call node.Call) {
	if r.Op == node.Acquire {
		c.cancel()
		call.Done(node.Answer{Status: node.Granted, Register: r.Token}, nil)
	}
}

// Who acquires in the moment in which the context ends has the lock, and its release
// waits for its own answers.
func TestAcquiredAndCancelledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &cancelling{Node: memnode.New("a node")}
		l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, TTL: 10 * time.Second, NodeTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for range 50 { // both are ready, and which is seen first is chance
			var ctx context.Context
			ctx, n.cancel = context.WithCancel(context.Background())
			lock, err := l.TryAcquire(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Release(context.Background()); !errors.Is(err, fenlock.ErrNoQuorum) {
				t.Fatalf("a release that no node has answered: %v", err)
			}
		}
	})
}

// Without all of its methods a wrapper would be asked by Do, and no test would tell.
var _ = []node.Ordered{(*silent)(nil), (*cancelling)(nil), (*tickNode)(nil)}
