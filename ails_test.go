package fenlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// ailing is a node that answers nothing, and knows why.
type ailing struct{ *memnode.Node }

func (a *ailing) Engine() any { return a }
func (a *ailing) Ails() error { return errors.New("connection refused") }

func (a *ailing) Do(ctx context.Context, _ node.Request) (node.Answer, error) {
	<-ctx.Done()
	return node.Answer{}, ctx.Err()
}

func (a *ailing) Inspect(ctx context.Context, _ string) (node.Lease, error) {
	<-ctx.Done()
	return node.Lease{}, ctx.Err()
}

// Why a node cannot answer is told with the time in which it has not.
func TestAilingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []fenlock.Node{&ailing{memnode.New("a")}}
		_, err := newLocker(t, fenlock.Config{Nodes: nodes}).TryAcquire(t.Context(), name)
		if !errors.Is(err, fenlock.ErrNoQuorum) || errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "no answer within 500ms: connection refused") {
			t.Errorf("an acquisition: %v", err)
		}
		a, err := admin.New(nodes)
		wantErr(t, err)
		if _, err := a.Inspect(t.Context(), name); err == nil ||
			!strings.Contains(err.Error(), "no answer in time: connection refused") {
			t.Errorf("a look: %v", err)
		}
	})
}
