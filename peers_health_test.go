package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// told collects what the Observer and the Logger hear of nodes.
type told struct {
	mu             sync.Mutex
	observer, logs []string
}

func (h *told) listen(c *fenlock.Config) {
	c.Observer.Node = func(change fenlock.NodeChange) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.observer = append(h.observer, change.String())
	}
	c.Logger = slog.New(funcHandler(func(r slog.Record) {
		line := fmt.Sprintf("%v %s", r.Level, r.Message)
		r.Attrs(func(a slog.Attr) bool {
			line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
			return true
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		h.logs = append(h.logs, line)
	}))
}

// hears checks what was told since the last call, to both.
func (h *told) hears(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.observer)
	if !slices.Equal(h.observer, want) {
		t.Errorf("the observer heard\n\t%s\nwant\n\t%s", strings.Join(h.observer, "\n\t"), strings.Join(want, "\n\t"))
	}
	if len(h.logs) != len(want) {
		t.Errorf("the log has\n\t%s\nwant %d lines", strings.Join(h.logs, "\n\t"), len(want))
	}
	h.observer, h.logs = nil, nil
}

// What is wrong with a node is told once when it happens, and once when it is over,
// however often it is asked meanwhile.
func TestNodeChangesAreToldOnce(t *testing.T) {
	for what, c := range map[string]struct {
		how  fault
		want []string
	}{
		"down": {down, []string{"node a is down: connection refused"}},
		"hung": {fault{hang: true}, []string{"node a is down: no answer within 500ms"}},
		"mistyped": {fault{err: errors.New("a: lookup valky1: no such host")},
			[]string{"node a is down: lookup valky1: no such host"}},
		"misconfigured": {fault{err: fmt.Errorf("a: %w: the password is wrong",
			node.ErrMisconfigured)}, []string{"node a is misconfigured: the password is wrong"}},
		"a request that is refused for itself": {fault{err: fmt.Errorf("a: %w: the key is reserved", node.ErrInvalid)}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, cluster *cluster) {
				var h told
				l := cluster.locker(h.listen)
				use := func() {
					for range 3 {
						wantErr(t, take(t, l, name).Release(t.Context()))
						time.Sleep(2 * nodeTimeout)
					}
				}
				use()
				h.hears(t)
				cluster.nodes[0].set(allOps, c.how)
				use()
				h.hears(t, c.want...)
				cluster.nodes[0].heal()
				use()
				if c.want != nil {
					h.hears(t, "node a works again")
				}
				h.hears(t)
			})
		})
	}
}

// The log says what to look for, at a level by which it is found.
func TestNodeChangesInTheLog(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var h told
		l := c.locker(h.listen)
		c.nodes[1].set(allOps, fault{err: errors.New("b: connection refused")})
		take(t, l, "one")
		time.Sleep(time.Second)
		c.nodes[1].heal()
		take(t, l, "two")
		synctest.Wait()
		want := []string{
			"WARN fenlock: a node is down node=b state=is down error=connection refused",
			"INFO fenlock: a node works again node=b state=works",
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if !slices.Equal(h.logs, want) {
			t.Errorf("the log has %q", h.logs)
		}
	})
}

// A caller that gives up, and a Close, are no failures of nodes.
func TestCallersEndIsNoChangeOfANode(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var h told
		l := c.locker(h.listen)
		c.set(0, 3, allOps, fault{request: 200 * time.Millisecond})
		for _, after := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_, err := l.Acquire(ctx, name)
			cancel()
			wantErr(t, err, context.DeadlineExceeded)
			time.Sleep(2 * time.Second)
		}
		go l.TryAcquire(t.Context(), name)
		time.Sleep(time.Millisecond)
		c.set(0, 3, allOps, down)
		l.Close()
		h.hears(t)
	})
}

// This process was stopped: the answers may have been waiting all the time.
func TestPauseOfTheProcessIsNoChangeOfANode(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var h told
		l := c.locker(h.listen)
		c.set(0, 3, allOps, fault{hang: true})
		go l.TryAcquire(t.Context(), name)
		time.Sleep(time.Millisecond)
		c.suspend(time.Minute)
		c.set(0, 3, allOps, fault{})
		time.Sleep(2 * time.Second)
		wantErr(t, take(t, l, "another").Release(t.Context()))
		h.hears(t)
	})
}

// A node that comes and goes is told of a few times, and then once a minute.
func TestNodeThatComesAndGoes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var h told
		l := c.locker(h.listen)
		for i := range 3600 {
			how := fault{}
			if i%2 == 0 {
				how = down
			}
			c.nodes[0].set(allOps, how)
			take(t, l, fmt.Sprint(i)).Release(t.Context())
			time.Sleep(time.Second)
		}
		synctest.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		if n := len(h.observer); n < 60 || n > 70 {
			t.Errorf("an hour: %d messages", n)
		}
		for i, line := range h.observer {
			if want := map[bool]string{true: "is down", false: "works again"}[i%2 == 0]; !strings.Contains(line, want) {
				t.Errorf("message %d is %q", i, line)
			}
		}
	})
}

// An observer that blocks keeps no caller from locking, nor an engine from answering.
func TestObserverOfNodesThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		answers := make(chan func(), 100)
		go func() { // as those of a connection are
			for tell := range answers {
				tell()
			}
		}()
		config := fenlock.Config{Observer: fenlock.Observer{Node: func(fenlock.NodeChange) { <-proceed }}}
		for _, name := range []string{"a", "b", "c"} {
			n := memnode.New(name)
			config.Nodes = append(config.Nodes, ordered{n, func(r node.Request, call node.Call) {
				answer, err := n.Do(context.Background(), r)
				if name == "a" {
					answer, err = node.Answer{}, errDown
				}
				answers <- func() { call.Done(answer, err) }
			}})
		}
		l := newLocker(t, config)
		for range 3 {
			wantErr(t, take(t, l, name).Release(t.Context()))
		}
		close(proceed)
		synctest.Wait()
		close(answers)
	})
}

// A node that is out goes on releasing, and when it will vote comes nearer: neither is a
// change. Another reason is one.
func TestNodeThatIsOut(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var h told
		l := c.locker(h.listen)
		out := func(why node.Absence) func(node.Answer) node.Answer {
			return func(a node.Answer) node.Answer { return node.Answer{Status: node.Rejoining, Absence: why} }
		}
		use := func(forge func(node.Answer) node.Answer) {
			c.nodes[0].mu.Lock()
			c.nodes[0].forge = forge
			c.nodes[0].mu.Unlock()
			wantErr(t, take(t, l, name).Release(t.Context()))
			time.Sleep(10 * time.Second)
		}
		use(out(node.Absence{Cause: node.Restarted, Wait: 28 * time.Second}))
		use(out(node.Absence{Cause: node.Restarted, Wait: 18 * time.Second}))
		h.hears(t, "node a is out: it was started a short time ago and may have forgotten leases; voting starts in 28 s")
		use(out(node.Absence{Cause: node.NeedsRegisters, Need: 2, Have: 1}))
		h.hears(t, "node a is out: its registers must be rebuilt from 2 other nodes, and only 1 of the others that have theirs can be reached")
		use(nil)
		h.hears(t, "node a works again")
	})
}

// An answer that comes after the node timeout tells a slow node from one that hangs.
func TestNodeThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h told
		var took time.Duration
		config := fenlock.Config{}
		h.listen(&config)
		for _, name := range []string{"a", "b", "c"} {
			n := memnode.New(name)
			config.Nodes = append(config.Nodes, ordered{n, func(r node.Request, call node.Call) {
				answer, err := n.Do(context.Background(), r)
				if name == "a" && took > 0 {
					time.AfterFunc(took, func() { call.Done(answer, err) })
					return
				}
				call.Done(answer, err)
			}})
		}
		l := newLocker(t, config)
		use := func(takes time.Duration) {
			took = takes
			for range 3 {
				wantErr(t, take(t, l, name).Release(t.Context()))
				time.Sleep(5 * time.Second)
			}
		}
		use(700 * time.Millisecond)
		h.hears(t, "node a is down: no answer within 500ms", "node a is late: it answers after 700ms, and has 500ms")
		use(100 * time.Millisecond)
		h.hears(t, "node a works again")
		use(4 * time.Second) // it was stopped, perhaps
		h.hears(t, "node a is down: no answer within 500ms")
		use(0)
		h.hears(t, "node a works again")
	})
}
