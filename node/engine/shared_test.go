package engine

import (
	"context"
	"testing"
	"testing/synctest"
)

// What is shared is done once for all that want it meanwhile, also if the first one gives up, and
// then anew. Close waits for it.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Shared[int]
		life, runs, goOn := NewLifetime(), 0, make(chan bool)
		do := func() (int, error) { runs++; <-goOn; return runs, nil }
		ctx, giveUp := context.WithCancel(t.Context())
		first := s.Begin(life, do)
		giveUp()
		if _, over, err := first.Wait(ctx); over || err != context.Canceled {
			t.Errorf("%t, %v; want what has not ended", over, err)
		}
		second := s.Begin(life, do)
		life.End()
		waited := false
		go func() { life.Wait(); waited = true }()
		if synctest.Wait(); waited {
			t.Error("the life does not wait")
		}
		goOn <- true
		for _, u := range []*Underway[int]{first, second} {
			if n, over, err := u.Wait(t.Context()); n != 1 || !over || err != nil {
				t.Errorf("%d, %t, %v; want the first run", n, over, err)
			}
		}
		synctest.Wait()
		if _, over, err := s.Begin(life, do).Wait(t.Context()); !over || err != ErrClosed {
			t.Errorf("after the end: %t, %v", over, err)
		}
		close(goOn)
		if n, _, err := s.Begin(NewLifetime(), do).Wait(t.Context()); n != 2 || err != nil {
			t.Errorf("%d, %v; want the second run", n, err)
		}
	})
}
