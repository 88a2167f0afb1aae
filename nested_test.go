package fenlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// holding is what has a lock for a while: a *fenlock.Lock, or several.
type holding interface {
	Context() context.Context
	Release(ctx context.Context) error
}

// scope is a holding of which one has the context, and another one the release.
type scope struct {
	ctx     context.Context
	release func(context.Context) error
}

func (s scope) Context() context.Context          { return s.ctx }
func (s scope) Release(ctx context.Context) error { return s.release(ctx) }

// Every context that tells of a lock, and another Locker of the same nodes.
func TestEveryContextTellsWhatIsHeld(t *testing.T) {
	for what, hold := range map[string]func(ctx context.Context, l *fenlock.Locker) (holding, error){
		"Acquire":    func(ctx context.Context, l *fenlock.Locker) (holding, error) { return l.Acquire(ctx, name) },
		"TryAcquire": func(ctx context.Context, l *fenlock.Locker) (holding, error) { return l.TryAcquire(ctx, name) },
		"AcquireAny": func(ctx context.Context, l *fenlock.Locker) (holding, error) {
			return l.AcquireAny(ctx, []string{name, "z"})
		},
		"AcquireAll": func(ctx context.Context, l *fenlock.Locker) (holding, error) {
			return l.AcquireAll(ctx, []string{"a", name})
		},
		"one of AcquireAll": func(ctx context.Context, l *fenlock.Locker) (holding, error) {
			k, err := l.AcquireAll(ctx, []string{"a", name})
			return scope{k.Lock(name).Context(), k.Release}, err
		},
		"Lock": func(ctx context.Context, l *fenlock.Locker) (holding, error) {
			held, release, err := l.Lock(ctx, name)
			return scope{held, func(context.Context) error { release(); return nil }}, err
		},
		"Adopt": func(ctx context.Context, l *fenlock.Locker) (holding, error) {
			k, err := l.Acquire(ctx, name)
			if err != nil {
				return nil, err
			}
			text, err := k.Export(ctx)
			if err != nil {
				return nil, err
			}
			return l.Adopt(ctx, text)
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.queuer()
				lock, err := hold(t.Context(), l)
				wantErr(t, err)
				held := lock.Context()
				further := take(t, l, "further") // what is held before is told, too
				nested, cancel := context.WithCancel(held)
				defer cancel()
				inner, err := l.Acquire(nested, "inner")
				wantErr(t, err)
				for _, ctx := range []context.Context{held, nested, inner.Context()} {
					for _, other := range []*fenlock.Locker{l, c.queuer()} {
						time.Sleep(time.Second)
						before := c.requests(allOps)
						_, err := other.Acquire(ctx, name)
						wantErr(t, err, fenlock.ErrNested, fenlock.ErrHeld)
						_, err = other.AcquireAll(ctx, []string{"y", name})
						wantErr(t, err, fenlock.ErrNested)
						_, err = other.AcquireAny(ctx, []string{name, name})
						wantErr(t, err, fenlock.ErrNested)
						_, err = other.AcquireShared(ctx, name)
						wantErr(t, err, fenlock.ErrNested)
						if c.requests(allOps) != before {
							t.Error("the nodes were asked")
						}
						free, err := other.AcquireAny(ctx, []string{name, "free"})
						wantErr(t, err)
						wantErr(t, free.Release(ctx))
						_, err = other.TryAcquire(ctx, "further")
						wantErr(t, err, fenlock.ErrHeld)
						wantNot(t, err, fenlock.ErrNested)
					}
				}
				ctx := context.WithoutCancel(inner.Context())
				wantErr(t, inner.Release(t.Context()))
				wantErr(t, further.Release(t.Context()))
				wantErr(t, lock.Release(t.Context()))
				// What is over is no reason.
				again, err := c.queuer().Acquire(ctx, name, fenlock.WithWait(time.Minute))
				wantErr(t, err)
				wantErr(t, again.Release(t.Context()))
			})
		})
	}
}

// A lock that was lost, that its caller did not release, and that waits for nothing.
func TestWhatWasLostIsNotNested(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), name)
		_, err := c.admin().ForceRelease(t.Context(), name)
		wantErr(t, err)
		time.Sleep(ttl)
		wantCause(t, lock.Context(), fenlock.ErrLost)
		again, err := c.locker().Acquire(context.WithoutCancel(lock.Context()), name, fenlock.WithWait(time.Second))
		wantErr(t, err)
		wantErr(t, again.Release(t.Context()))
	})
}

// Other nodes, and nodes that only have the same names, are other locks.
func TestOtherNodesAreNotNested(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		locker := func(nodes ...node.Node) *fenlock.Locker { return newLocker(t, fenlock.Config{Nodes: nodes}) }
		own := []*memnode.Node{memnode.New("a"), memnode.New("b"), memnode.New("c")}
		lock := take(t, locker(own[0], own[1], own[2]), name)
		for _, other := range []*fenlock.Locker{
			locker(memnode.New("a"), memnode.New("b"), memnode.New("c")),
			locker(own[0].Share(), memnode.New("b"), memnode.New("c")),
			locker(memnode.New("a")),
		} {
			k, err := other.Acquire(lock.Context(), name, fenlock.WithWait(time.Minute))
			wantErr(t, err)
			wantErr(t, k.Release(t.Context()))
		}
		// A part of them has the lock, and is not the group.
		_, err := locker(own[0].Share(), own[1].Share()).TryAcquire(lock.Context(), name)
		wantErr(t, err, fenlock.ErrHeld)
		wantNot(t, err, fenlock.ErrNested)
		// In any order.
		_, err = locker(own[2].Share(), own[0].Share(), own[1].Share()).Acquire(lock.Context(), name)
		wantErr(t, err, fenlock.ErrNested)
	})
}

// What waiting would get is not refused: a reader beside a reader, or another slot.
func TestNestedAndShared(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.queuer()
		reader, err := l.AcquireShared(t.Context(), name)
		wantErr(t, err)
		for _, other := range []*fenlock.Locker{l, c.queuer()} {
			again, err := other.AcquireShared(reader.Context(), name)
			wantErr(t, err)
			wantErr(t, again.Release(t.Context()))
			_, err = other.Acquire(reader.Context(), name)
			wantErr(t, err, fenlock.ErrNested)
			s, err := other.Slots(name, 3)
			wantErr(t, err)
			_, err = s.Acquire(reader.Context()) // the holder of a slot does not share it
			wantErr(t, err, fenlock.ErrNested)
		}
		wantErr(t, reader.Release(t.Context()))

		// With the context of a Do it has always been refused, by the same Locker.
		wantErr(t, l.Do(t.Context(), name, func(ctx context.Context, _ fence.Token) error {
			_, err := l.AcquireShared(ctx, name)
			wantErr(t, err, fenlock.ErrNested)
			again, err := c.queuer().AcquireShared(ctx, name)
			wantErr(t, err)
			return again.Release(ctx)
		}, fenlock.WithShared()))

		writer := take(t, l, name)
		_, err = c.queuer().AcquireShared(writer.Context(), name)
		wantErr(t, err, fenlock.ErrNested)
		wantErr(t, writer.Downgrade(t.Context()))
		again, err := c.queuer().AcquireShared(writer.Context(), name)
		wantErr(t, err)
		wantErr(t, again.Release(t.Context()))
		wantErr(t, writer.Release(t.Context()))
	})
	bubble(t, 3, func(t *testing.T, c *cluster) {
		slot, err := c.slots(t, 2).Acquire(t.Context())
		wantErr(t, err)
		for _, taken := range []string{name, slot.Name()} {
			_, err = c.queuer().Acquire(slot.Context(), taken)
			wantErr(t, err, fenlock.ErrNested)
			_, err = c.queuer().AcquireShared(slot.Context(), taken)
			wantErr(t, err, fenlock.ErrNested)
		}
		_, err = c.slots(t, 3).Acquire(slot.Context())
		wantErr(t, err, fenlock.ErrSlots)
		second, err := c.slots(t, 2).Acquire(slot.Context(), fenlock.WithWait(time.Second))
		wantErr(t, err)
		_, err = c.slots(t, 2).Acquire(second.Context()) // both are held
		wantErr(t, err, fenlock.ErrNested)
		// the second is another client's, for all that this context tells
		_, err = c.slots(t, 2).Acquire(slot.Context(), fenlock.WithWait(time.Second))
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, slot.Release(t.Context()))
		wantErr(t, second.Release(t.Context()))

		alone := take(t, c.queuer(), name+"#0")
		_, err = c.slots(t, 1).Acquire(alone.Context())
		wantErr(t, err, fenlock.ErrNested)
		wantErr(t, alone.Release(t.Context()))
	})
}

// A name that moves is locked on two groups.
func TestNestedOnTwoGroups(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		ctx := t.Context()
		old, during, after, name := moving(t, s)
		lock, err := during.Acquire(ctx, name)
		wantErr(t, err)
		for _, g := range []*groups.Groups{old, during, after} {
			_, err := g.Acquire(lock.Context(), name)
			wantErr(t, err, fenlock.ErrNested)
		}
		wantErr(t, lock.Release(ctx))
	})
}

// A context that is printed shows the name and not the holder.
func TestPrintedContext(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), name)
		child, cancel := context.WithCancel(lock.Context())
		defer cancel()
		if text := fmt.Sprint(child); !strings.Contains(text, "WithCancel.Held(lock(\""+name+"\")).WithCancel") ||
			len(text) > 200 {
			t.Errorf("it prints as %s", text)
		}
		wantErr(t, lock.Release(t.Context()))
	})
}
