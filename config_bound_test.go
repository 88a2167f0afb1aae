package fenlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// binder is a node whose leases end with the process.
type binder struct {
	*memnode.Node
	down atomic.Bool
}

func (b *binder) Engine() any { return b }
func (b *binder) Binds() bool { return true }

func (b *binder) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if b.down.Load() {
		return node.Answer{}, node.NotSent(errors.New("the disk is full"))
	}
	r.TTL = 1000 * time.Hour
	return b.Node.Do(ctx, r)
}

// A lock that is bound to its process outlasts whatever its node cannot do meanwhile.
func TestBoundLockIsNotLostByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &binder{Node: memnode.New("n")}
		l := newLocker(t, fenlock.Config{Nodes: []fenlock.Node{b}, MaxHold: -1})
		lock := take(t, l, name)
		b.down.Store(true)
		time.Sleep(3 * time.Hour)
		b.down.Store(false)
		wantCause(t, lock.Context(), nil)
		if left := lock.Remaining(); left < 1000*time.Hour {
			t.Errorf("%v are left", left)
		}
		wantErr(t, lock.Release(t.Context()))
		wantErr(t, take(t, l, name).Release(t.Context()))
	})
}

// An operator's release is heard of within a third of the TTL, as of any lock; also of one with a
// maximum hold.
func TestBoundLockIsBroken(t *testing.T) {
	for _, maxHold := range []time.Duration{-1, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := &binder{Node: memnode.New("n")}
			lock := take(t, newLocker(t, fenlock.Config{Nodes: []fenlock.Node{b}, MaxHold: maxHold}), name)
			time.Sleep(time.Minute)
			wantCause(t, lock.Context(), nil)
			if _, err := b.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: name}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(fenlock.DefaultTTL / 3)
			synctest.Wait()
			wantCause(t, lock.Context(), fenlock.ErrLost)
		})
	}
}

// A lease that does not end by time is released when its maximum hold is over.
func TestBoundLockIsHeldTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &binder{Node: memnode.New("n")}
		l := newLocker(t, fenlock.Config{Nodes: []fenlock.Node{b}, MaxHold: time.Hour})
		lock := take(t, l, name)
		time.Sleep(time.Hour)
		wantCause(t, lock.Context(), fenlock.ErrMaxHold)
		wantErr(t, take(t, l, name).Release(t.Context()))
		wantErr(t, lock.Release(t.Context()), fenlock.ErrMaxHold)
	})
}

// What may outlive the process is refused where leases end with it, and so is another node beside
// it.
func TestBoundLockEndsWithItsProcess(t *testing.T) {
	b := &binder{Node: memnode.New("n")}
	_, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("a"), b, memnode.New("c")}})
	wantErr(t, err, fenlock.ErrInvalid)

	l := newLocker(t, fenlock.Config{Nodes: []fenlock.Node{b}})
	_, err = l.TryAcquire(t.Context(), name, fenlock.WithMinHold(time.Second))
	wantErr(t, err, fenlock.ErrInvalid)
	lock := take(t, l, name)
	_, err = lock.Export(t.Context())
	wantErr(t, err, fenlock.ErrInvalid)
	if lock.Context().Err() != nil {
		t.Error("a refused export has ended the lock")
	}
	wantErr(t, lock.Release(t.Context()))

	other := b.Share()
	exporter := newLocker(t, fenlock.Config{Nodes: []fenlock.Node{other}})
	kept, err := exporter.TryAcquire(t.Context(), name, fenlock.WithMinHold(time.Second))
	wantErr(t, err)
	text, err := kept.Export(t.Context())
	wantErr(t, err)
	_, err = l.Adopt(t.Context(), text)
	wantErr(t, err, fenlock.ErrInvalid)
}
