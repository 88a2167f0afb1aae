package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// hung is the link of a server that accepts connections, and says nothing.
type hung struct{ resp.Link }

func (hung) Spawn(f func()) error { go f(); return nil }

func (hung) Identify(ctx context.Context, _ resp.Command, _ func(string, resp.Reply, uint64) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// A request that waits for a server, or begins to, is told at once that this has ended.
func TestFinishEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(nil, hung{}, &command.Keys{}, command.Errors{}, AllReplicas)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		waiting := make(chan error)
		go func() {
			_, err := v.Look(ctx)
			waiting <- err
		}()
		time.Sleep(time.Millisecond)
		start := time.Now()
		v.Finish()
		first := <-waiting
		_, second := v.Look(ctx)
		for _, err := range []error{first, second} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("waited for %v", took)
		}
		time.Sleep(lookTimeout) // the look at the server ends by itself
	})
}
