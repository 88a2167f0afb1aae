package fenlock_test

import (
	"context"
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

// ordered is a node.Ordered that is a function. Without all of its methods it would be
// asked by Do, and no test would tell.
type ordered struct {
	fenlock.Node
	start func(node.Request, node.Call)
}

var _ node.Ordered = ordered{}

func (ordered) InOrder() bool                                           { return true }
func (o ordered) Start(r node.Request, _ time.Duration, call node.Call) { o.start(r, call) }

// grant answers a call.
func grant(r node.Request, call node.Call) {
	call.Done(node.Answer{Status: node.Granted, Register: r.Token}, nil)
}

// silent is a node that executes what it is asked and keeps the outcomes to
// itself until it is told to tell them.
type silent struct {
	*memnode.Node
	mu   sync.Mutex
	mute bool
	kept []func()
}

func (s *silent) start(r node.Request, call node.Call) {
	answer, err := s.Do(context.Background(), r)
	s.mu.Lock()
	mute := s.mute
	if mute {
		begun := time.Now()
		s.kept = append(s.kept, func() {
			if call.Wanted() && time.Since(begun) >= time.Second {
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
	config := fenlock.Config{TTL: 10 * time.Second, NodeTimeout: time.Second}
	var nodes []*silent
	for i := range n {
		s := &silent{Node: memnode.New(fmt.Sprint("node ", i))}
		nodes = append(nodes, s)
		config.Nodes = append(config.Nodes, ordered{s, s.start})
	}
	return newLocker(t, config), nodes
}

func wantNoneInFlight(t *testing.T, l *fenlock.Locker) {
	t.Helper()
	synctest.Wait()
	if n := fenlock.InFlight(l); n != 0 {
		t.Errorf("%d fanouts have not ended", n)
	}
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
		wantErr(t, err, fenlock.ErrNoQuorum)
		if strings.Count(fmt.Sprint(err), "no answer within 1s") != 2 {
			t.Errorf("%v", err)
		}
		// What was granted is being released there, to the same silence.
		time.Sleep(2 * time.Second)
		for _, n := range nodes[1:] {
			n.be(false)
			n.tell()
		}
		wantErr(t, take(t, l, "x").Release(t.Context()))
		wantNoneInFlight(t, l)
	})
}

// Time limits go by the order of their beginnings, whatever ends in between.
func TestStartersTimeLimitsAreEachTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := silents(t, 1)
		nodes[0].be(true)
		var wg sync.WaitGroup
		for i := range 5 {
			time.Sleep(300 * time.Millisecond)
			if i == 2 { // this one is answered
				nodes[0].be(false)
				lock := take(t, l, "answered")
				defer lock.Release(context.Background())
				nodes[0].be(true)
				continue
			}
			wg.Go(func() {
				begin := time.Now()
				_, err := l.TryAcquire(t.Context(), fmt.Sprint("x", i))
				wantErr(t, err, fenlock.ErrNoQuorum)
				if took := time.Since(begin); took != time.Second {
					t.Errorf("gave up after %v", took)
				}
			})
		}
		wg.Wait()
		nodes[0].be(false)
		time.Sleep(2 * time.Second)
		wantNoneInFlight(t, l)
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

// A caller that acquires in the moment in which the context ends has the lock, and its release
// waits for its own answers.
func TestAcquiredAndCancelledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx context.Context
		var cancel context.CancelFunc
		n := ordered{memnode.New("a node"), func(r node.Request, call node.Call) {
			if r.Op == node.Acquire { // a release has no answer
				cancel()
				grant(r, call)
			}
		}}
		l := newLocker(t, fenlock.Config{Nodes: []fenlock.Node{n}, TTL: 10 * time.Second, NodeTimeout: time.Second})
		for range 50 { // both are ready, and which is seen first is chance
			ctx, cancel = context.WithCancel(context.Background())
			defer cancel()
			lock, err := l.TryAcquire(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			wantErr(t, lock.Release(context.Background()), fenlock.ErrNoQuorum)
		}
	})
}
