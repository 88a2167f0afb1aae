package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
	"github.com/fenlock/fenlock/sim"
)

// The simulator has a shell of its own, written after the one of this package.
// Both play the same scripts, and the nodes must see the same requests, answered
// in the same way, at the same times; the callers must be told the same.
func TestTheSimulatorMirrorsTheShell(t *testing.T) {
	for _, script := range scripts {
		t.Run(script.Name, func(t *testing.T) {
			for _, script.Starters = range []bool{false, true} {
				want := playShell(t, script)
				got := sim.Play(script)
				if len(want) == 0 {
					t.Fatal("nothing happens")
				}
				if !slices.Equal(got, want) {
					t.Errorf("Starters: %t. The shell:\n%s\nthe simulator:\n%s", script.Starters, strings.Join(unlike(want, got), "\n"), strings.Join(unlike(got, want), "\n"))
				}
			}
		})
	}
}

// unlike returns the lines of a, those that b lacks marked.
func unlike(a, b []string) (lines []string) {
	for _, line := range a {
		mark := "  "
		if !slices.Contains(b, line) {
			mark = "> "
		}
		lines = append(lines, mark+line)
	}
	return lines
}

// trip is how long a message takes, in the simulator as well.
const trip = 50 * time.Microsecond

// stage is where a script is played by the shell.
type stage struct {
	script sim.Script
	start  time.Time
	mu     sync.Mutex
	said   []sim.Said
}

func (s *stage) tell(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, sim.Said{At: time.Since(s.start), What: what})
}

// linked is one client's link to a node, which can be cut.
type linked struct {
	*memnode.Node
	stage        *stage
	client, node int

	mu   sync.Mutex
	lost [2]bool // requests, replies
}

// linkedNode hides what a memnode would do of itself.
type linkedNode struct{ *linked }

func (l *linkedNode) Engine() any { return struct{ node.Queuer }{l.linked} }

func (l *linked) cut(dir int, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost[dir] = lost
}

func (l *linked) pass(dir int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost[dir]
}

func (l *linked) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	passes := l.pass(0)
	time.Sleep(trip)
	if !passes {
		<-ctx.Done()
		return node.Answer{}, ctx.Err()
	}
	answer, err := l.Node.Do(context.WithoutCancel(ctx), r)
	if err != nil {
		return answer, err
	}
	name := slices.Index(scriptNames, r.Name)
	l.stage.tell(sim.Request(l.client, l.node, r.Op, name, r.Place.Stamp != 0, answer.Status))
	passes = l.pass(1)
	time.Sleep(trip)
	if !passes {
		<-ctx.Done()
		return node.Answer{}, ctx.Err()
	}
	return answer, nil
}

// Listen takes as long as a subscription does. A call needs its time as well.
func (l *linked) Listen(ctx context.Context, client string, event func(string)) error {
	time.Sleep(2 * trip)
	return l.Node.Listen(ctx, client, func(waiter string) {
		go func() {
			time.Sleep(trip)
			event(waiter)
		}()
	})
}

var scriptNames = []string{"a", "b", "c"}

// playShell plays a script with Lockers, on the bubble's clock.
func playShell(t *testing.T, script sim.Script) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{script: script, start: time.Now()}
		var nodes []*memnode.Node
		now := func() time.Duration { return time.Since(s.start) + time.Hour }
		for i := range script.Nodes {
			nodes = append(nodes, memnode.New(fmt.Sprint("node ", i), memnode.WithClock(now)))
		}
		var lockers []*fenlock.Locker
		links := make([][]*linked, script.Clients)
		for c := range script.Clients {
			config := fenlock.Config{TTL: script.TTL, MaxTTL: script.TTL, NodeTimeout: script.NodeTimeout, MaxHold: script.MaxHold, Logger: quiet}
			for i, n := range nodes {
				l := &linked{Node: n.Share(), stage: s, client: c, node: i}
				links[c] = append(links[c], l)
				var member fenlock.Node = &linkedNode{l}
				if script.Starters {
					member = &starter{linkedNode{l}}
				}
				config.Nodes = append(config.Nodes, member)
			}
			locker, err := fenlock.New(config)
			if err != nil {
				t.Fatal(err)
			}
			fenlock.SetClock(locker, now)
			lockers = append(lockers, locker)
		}
		var mu sync.Mutex
		locks, cancels := make(map[string]*fenlock.Lock), make(map[string]context.CancelFunc)
		for _, step := range script.Steps {
			time.Sleep(time.Until(s.start.Add(step.At)))
			mu.Lock()
			lock := locks[step.Lock]
			mu.Unlock()
			switch step.Do {
			case sim.Acquire, sim.TryAcquire:
				ctx, cancel := context.WithCancel(context.Background())
				cancels[step.Lock] = cancel
				take := lockers[step.Client].TryAcquire
				if step.Do == sim.Acquire {
					take = lockers[step.Client].Acquire
				}
				go func() {
					lock, err := take(ctx, scriptNames[step.Name])
					if err != nil {
						s.tell(sim.Outcome(step.Lock, "failed"))
						return
					}
					s.tell(sim.Outcome(step.Lock, "acquired"))
					mu.Lock()
					locks[step.Lock] = lock
					mu.Unlock()
					<-lock.Context().Done()
					s.tell(sim.Outcome(step.Lock, "ended"))
				}()
			case sim.Cancel:
				cancels[step.Lock]()
			case sim.Extend:
				go lock.Extend(context.Background())
			case sim.Release:
				go func() {
					if err := lock.Release(context.Background()); errors.Is(err, fenlock.ErrReleased) {
						t.Error(err)
					}
					s.tell(sim.Outcome(step.Lock, "released"))
				}()
			case sim.CutRequests:
				links[step.Client][step.Node].cut(0, true)
			case sim.CutReplies:
				links[step.Client][step.Node].cut(1, true)
			case sim.Heal:
				links[step.Client][step.Node].cut(0, false)
				links[step.Client][step.Node].cut(1, false)
			}
		}
		time.Sleep(time.Until(s.start.Add(script.End)))
		s.mu.Lock()
		lines = sim.Tell(s.said)
		s.mu.Unlock()
		for _, cancel := range cancels {
			cancel()
		}
		for _, l := range lockers {
			l.Close()
		}
		time.Sleep(time.Minute)
	})
	return lines
}
