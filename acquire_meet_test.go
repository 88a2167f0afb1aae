package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// away is a node that is as far from a client as it says.
type away struct {
	node.Node
	way time.Duration
}

func (a away) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	time.Sleep(a.way)
	answer, err := a.Node.Do(ctx, r)
	time.Sleep(a.way)
	return answer, err
}

// Machines that start a job at the same moment, and do not wait, get the nodes that are next to
// them, each its own. None has a majority. One of them has to run the job, and the others not. That
// is so however far the nodes are, and if all machines have one label.
func TestWhoMeetsTriesAgain(t *testing.T) {
	const rounds = 300
	for _, scene := range []struct {
		machines int
		way      time.Duration // to nodes that are not next to a machine
	}{{2, 2 * time.Millisecond}, {3, 2 * time.Millisecond}, {5, 2 * time.Millisecond}, {3, 200 * time.Millisecond},
		{5, 200 * time.Millisecond}} {
		machines := scene.machines
		t.Run(fmt.Sprintf("%d machines, %v", machines, scene.way), func(t *testing.T) {
			nobody := 0
			for range rounds {
				synctest.Test(t, func(t *testing.T) {
					nodes := make([]*memnode.Node, max(machines, 3)|1)
					for i := range nodes {
						nodes[i] = memnode.New(fmt.Sprint("n", i))
					}
					lockers := make([]*fenlock.Locker, machines)
					for m := range lockers {
						var config fenlock.Config
						for i, n := range nodes {
							// The nodes go round: each machine has as many that are next to it.
							way := scene.way
							if i%machines == m {
								way /= 2
							}
							config.Nodes = append(config.Nodes, away{&plainNode{n.Share()}, way})
						}
						config.Label = "the job"
						lockers[m] = newLocker(t, config)
					}
					var run sync.WaitGroup
					var held atomic.Int32
					for _, l := range lockers {
						run.Go(func() {
							lock, err := l.TryAcquire(t.Context(), name)
							switch {
							case err == nil:
								held.Add(1)
								time.Sleep(time.Minute) // longer than the others try
								lock.Release(t.Context())
							case !errors.Is(err, fenlock.ErrHeld):
								t.Error(err)
							}
						})
					}
					run.Wait()
					switch held.Load() {
					case 0:
						nobody++
					case 1:
					default:
						t.Errorf("%d of %d ran the job", held.Load(), machines)
					}
				})
			}
			// Clients that meet repeatedly are left to chance; without trying again it is all of
			// them.
			if nobody > rounds/30 {
				t.Errorf("nobody ran the job in %d of %d rounds", nobody, rounds)
			}
			t.Logf("nobody in %d of %d", nobody, rounds)
		})
	}
}

// What a node that hangs costs an attempt says nothing about how far the others are: the next one
// begins soon.
func TestWhoMeetsBesideANodeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var config fenlock.Config
		for i := range 3 {
			n := memnode.New(fmt.Sprint("n", i))
			if i == 0 {
				alone := newLocker(t, fenlock.Config{Nodes: []fenlock.Node{&plainNode{n.Share()}}})
				if _, err := alone.TryAcquire(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			config.Nodes = append(config.Nodes, away{&plainNode{n.Share()}, time.Millisecond})
		}
		config.Nodes[2] = hungNode{config.Nodes[2]}
		l := newLocker(t, config)
		start := time.Now()
		_, err := l.TryAcquire(t.Context(), name)
		wantErr(t, err, fenlock.ErrHeld)
		const attempts = 6 * 500 * time.Millisecond // the node timeout each
		if took := time.Since(start) - attempts; took < 62*time.Millisecond || took > 200*time.Millisecond {
			t.Errorf("%v between six attempts, where answers take 2ms", took)
		}
	})
}

// hungNode does not answer.
type hungNode struct{ node.Node }

func (hungNode) Do(ctx context.Context, _ node.Request) (node.Answer, error) {
	<-ctx.Done()
	return node.Answer{}, ctx.Err()
}

// A caller between two such attempts hears at once that it gave up, and soon that the Locker was
// closed.
func TestBetweenMeetings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var config fenlock.Config
		for i := range 3 { // each node is another client's
			node := memnode.New(fmt.Sprint("n", i))
			alone := newLocker(t, fenlock.Config{Nodes: []fenlock.Node{&plainNode{node.Share()}},
				Label: fmt.Sprint("machine ", i)})
			if _, err := alone.TryAcquire(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			config.Nodes = append(config.Nodes, away{&plainNode{node.Share()}, time.Millisecond})
		}
		l := newLocker(t, config)
		start := time.Now()
		_, err := l.TryAcquire(t.Context(), name)
		wantErr(t, err, fenlock.ErrHeld)
		if took := time.Since(start); took < 10*time.Millisecond || took > time.Second {
			t.Errorf("six attempts took %v", took)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		defer cancel()
		start = time.Now()
		_, err = l.TryAcquire(ctx, name)
		wantErr(t, err, context.DeadlineExceeded, fenlock.ErrHeld)
		if took := time.Since(start); took != 3*time.Millisecond {
			t.Errorf("it gave up after %v", took)
		}

		time.AfterFunc(3*time.Millisecond, func() { l.Close() })
		_, err = l.TryAcquire(t.Context(), name)
		wantErr(t, err, fenlock.ErrClosed)
	})
}
