package filenode

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
)

// folder is short: the path of a socket has few bytes.
func folder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestConformance(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		path := filepath.Join(folder(t), "n")
		var passed atomic.Int64
		open := func() *Node {
			n := Open(path)
			wall := n.now
			n.now, n.sync = func() time.Duration { return wall() + time.Duration(passed.Load()) }, false
			return n
		}
		return nodetest.Harness{Node: open(), Other: open(), Wait: func(d time.Duration) { passed.Add(int64(d)) }, Fast: true}
	})
}

// A lock is handed over from one program to another, and a wrapper is asked by Do.
func TestLocker(t *testing.T) {
	path := filepath.Join(folder(t), "n")
	var asked atomic.Int64
	open := func() *fenlock.Locker {
		l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{&counting{Open(path), &asked}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	a, b := open(), open()
	first, err := a.Acquire(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan *fenlock.Lock)
	go func() {
		lock, err := b.Acquire(t.Context(), "orders")
		if err != nil {
			t.Error(err)
		}
		second <- lock
	}()
	time.Sleep(50 * time.Millisecond)
	if err := first.Release(t.Context()); err != nil {
		t.Error(err)
	}
	lock := <-second
	if lock == nil {
		return
	}
	if lock.Token() <= first.Token() {
		t.Errorf("token %d after %d", lock.Token(), first.Token())
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if asked.Load() < 4 {
		t.Errorf("the wrapper was asked %d times", asked.Load())
	}
}

// counting is a wrapper: it embeds a node, and overrides what it changes.
type counting struct {
	node.Node
	asked *atomic.Int64
}

func (c *counting) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	c.asked.Add(1)
	return c.Node.Do(ctx, r)
}
