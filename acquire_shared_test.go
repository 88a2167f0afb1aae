package fenlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/leader"
	"github.com/fenlock/fenlock/node"
)

// wants acquires the name in the background, in a process of its own, and returns when it waits.
func (c *cluster) wants(ctx context.Context, opts ...fenlock.Option) *arrival {
	a := c.comesUntil(ctx, c.queuer(), opts...)
	time.Sleep(100 * time.Millisecond)
	return a
}

// got reports whether it holds the lock by now.
func (a *arrival) got(t *testing.T) bool {
	t.Helper()
	synctest.Wait()
	select {
	case <-a.done:
		wantErr(t, a.err)
		return true
	default:
		return false
	}
}

func (a *arrival) release(t *testing.T) fence.Token {
	t.Helper()
	if !a.got(t) {
		t.Fatal("it waits")
	}
	wantErr(t, a.lock.Release(context.Background()))
	time.Sleep(100 * time.Millisecond)
	return a.lock.Token()
}

// Readers share a name. A writer waits for them, and those who come after it wait for it; when it
// is done, all that have come meanwhile are let in.
func TestSharedGoesByTheLine(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		shared := fenlock.WithShared()
		one, two := c.wants(t.Context(), shared), c.wants(t.Context(), shared)
		if !one.got(t) || !two.got(t) || one.lock.Token() != two.lock.Token() {
			t.Fatal("two who want to share it do not, by one number")
		}
		time.Sleep(10 * time.Minute) // extended meanwhile
		writer := c.wants(t.Context())
		three, four := c.wants(t.Context(), shared), c.wants(t.Context(), shared)
		if writer.got(t) || three.got(t) || four.got(t) {
			t.Fatal("it is not waited for those who share it, or for who came before")
		}
		earlier := one.release(t)
		if writer.got(t) {
			t.Fatal("one still shares it")
		}
		two.release(t)
		if !writer.got(t) || three.got(t) {
			t.Fatal("not the one whose turn it is")
		}
		second := c.wants(t.Context())
		token := writer.release(t)
		if !three.got(t) || !four.got(t) || second.got(t) {
			t.Fatal("not all who share it come before the next who does not")
		}
		if later := three.release(t); earlier >= token || token >= later {
			t.Errorf("the tokens are %d, %d, %d", earlier, token, later)
		}
		four.release(t)
		if second.release(t) <= token {
			t.Error("the token is not larger")
		}
		c.wantLeases(0)
	})
}

// A writer that goes on as a reader lets others in, and is never without the lock.
func TestDowngrade(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		writer := c.wants(t.Context())
		reader := c.wants(t.Context(), fenlock.WithShared())
		if !writer.got(t) || reader.got(t) {
			t.Fatal("the writer does not have it alone")
		}
		wantErr(t, writer.lock.Downgrade(t.Context()))
		time.Sleep(time.Second)
		if !reader.got(t) || reader.lock.Token() <= writer.lock.Token() {
			t.Fatal("the reader is not let in, with a larger token")
		}
		time.Sleep(10 * time.Minute)
		wantCause(t, writer.lock.Context(), nil)
		wantCause(t, reader.lock.Context(), nil)
		other := c.wants(t.Context())
		writer.release(t)
		if other.got(t) {
			t.Fatal("the reader still shares it")
		}
		reader.release(t)
		other.release(t)
		c.wantLeases(0)
	})
}

// A client that shares a name cannot have it alone by waiting: that fails at once.
func TestUpgradeIsAnError(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.queuer()
		wantErr(t, l.Do(t.Context(), name, func(ctx context.Context, _ fence.Token) error {
			_, err := l.Acquire(ctx, name)
			wantErr(t, err, fenlock.ErrNested)
			return nil
		}, fenlock.WithShared()))
		wantErr(t, leader.Lead(t.Context(), l, name, func(context.Context, fence.Token) error { return nil },
			fenlock.WithShared()), fenlock.ErrInvalid)
	})
}

// alone is a node that leases a name to one only.
type alone struct{ node.Node }

func (a alone) Engine() any { return struct{ node.Node }{a.Node} }

func TestNotAllNodesShare(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := newLocker(t, fenlock.Config{Nodes: []node.Node{alone{c.nodes[0]}}})
		_, err := l.AcquireShared(t.Context(), name)
		wantErr(t, err, fenlock.ErrInvalid)
		lock := take(t, l, name)
		wantErr(t, lock.Downgrade(t.Context()), fenlock.ErrInvalid)
		lock.Release(t.Context())
	})
}

// A client that wanted the name alone and gave up does not keep others from sharing it, although
// nodes heard of that later.
func TestWhoGaveUpUnheardKeepsNobodyOut(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		shared := fenlock.WithShared()
		one := c.wants(t.Context(), shared)
		one.got(t)
		ctx, cancel := context.WithCancel(t.Context())
		writer := c.wants(ctx)
		c.set(0, 3, release, down)
		cancel()
		<-writer.done
		time.Sleep(time.Second)
		c.set(0, 3, release, fault{})
		time.Sleep(5 * time.Second)
		two := c.wants(t.Context(), shared)
		time.Sleep(time.Minute)
		if !two.got(t) {
			t.Error("it waits for one that does not wait any more")
		}
		one.release(t)
		time.Sleep(10 * time.Second)
		two.release(t)
	})
}
