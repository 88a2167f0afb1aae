package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// looked is a node that can be looked at, or not.
type looked struct {
	node.Node
	examine func(ctx context.Context, look node.Look) (node.Examination, error)
}

func (l *looked) Engine() any { return l }

func (l *looked) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	return l.examine(ctx, look)
}

// blind is an engine that says nothing of itself.
type blind struct{ node.Node }

func (b *blind) Engine() any { return b }

// Nodes that hang, whether they heed their context or not, do not hide what the others say, and
// what each says is in its place. What a caller gives up, it does not wait for.
func TestNodesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan struct{})
		defer close(late)
		for thorough, patience := range map[bool]time.Duration{false: 5 * time.Second, true: 20 * time.Second} {
			var asked node.Look
			a, err := admin.New([]fenlock.Node{
				&looked{memnode.New("heeds"), func(ctx context.Context, _ node.Look) (node.Examination, error) {
					<-ctx.Done()
					return node.Examination{Role: "partly known"}, fmt.Errorf("heeds: %w", ctx.Err())
				}},
				&looked{memnode.New("answers"), func(_ context.Context, look node.Look) (node.Examination, error) {
					asked = look
					return node.Examination{Admitted: true, Role: "primary"}, nil
				}},
				&looked{memnode.New("hangs"), func(context.Context, node.Look) (node.Examination, error) {
					<-late
					return node.Examination{}, nil
				}},
				&blind{memnode.New("blind")},
			})
			wantErr(t, err)
			start := time.Now()
			all := a.Examine(t.Context(), node.Look{Thorough: thorough})
			if took := time.Since(start); took != patience {
				t.Errorf("it took %v, not %v", took, patience)
			}
			for i, want := range []struct{ name, err string }{
				{"heeds", ""}, {"answers", "-"}, {"hangs", "no answer within " + patience.String()},
				{"blind", "its engine cannot be looked at"},
			} {
				info := all[i]
				if info.Node != want.name || (want.err == "-") != (info.Err == nil) ||
					info.Err != nil && !strings.Contains(info.Err.Error(), want.name+": "+want.err) {
					t.Errorf("%d: %+v; want %v", i, info, want)
				}
			}
			if !all[1].Examination.Admitted || !errors.Is(all[3].Err, errors.ErrUnsupported) {
				t.Errorf("%+v", all)
			}
			if want := (node.Look{MaxTTL: fenlock.DefaultMaxTTL, Thorough: thorough}); asked != want {
				t.Errorf("asked with %+v, not %+v", asked, want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start = time.Now()
			if all := a.Examine(ctx, node.Look{Thorough: thorough}); all[2].Err == nil || time.Since(start) != time.Second {
				t.Errorf("given up: %+v after %v", all, time.Since(start))
			}
			cancel()
		}
	})
}

// To look at a node that has lost its memory does not let it in.
func TestNodesAdmitNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes, others []fenlock.Node
		for _, name := range []string{"a", "b", "c"} {
			n := memnode.New(name)
			nodes, others = append(nodes, n), append(others, n.Share())
		}
		l := newLocker(t, fenlock.Config{Nodes: nodes})
		a, err := admin.New(others)
		wantErr(t, err)
		lock := func() {
			wantErr(t, take(t, l, name).Release(t.Context()))
			synctest.Wait() // the first node may not have been needed
		}
		want := func(when string, down, votes bool, wait time.Duration) {
			t.Helper()
			for i, info := range a.Nodes(t.Context()) {
				e := info.Examination
				if i > 0 && (info.Err != nil || !e.Admitted) ||
					i == 0 && ((info.Err != nil) != down || e.Admitted != votes || e.Wait.Round(time.Second) != wait ||
						(e.Why == "") != (down || votes)) {
					t.Errorf("%s: node %d: %+v", when, i, info)
				}
			}
		}
		lock()
		want("at first", false, true, 0)
		n := nodes[0].(*memnode.Node)
		n.Crash()
		want("down", true, false, 0)
		n.Restart()
		want("restarted", false, false, fenlock.DefaultMaxTTL)
		time.Sleep(2 * fenlock.DefaultMaxTTL)
		for range 3 { // no client has asked for a lock
			want("after the wait", false, false, 0)
		}
		lock()
		want("asked for a lock", false, true, 0)
	})
}
