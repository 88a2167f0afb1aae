package fence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// A read is refused by a larger token that has written, a write by one that has written or read.
func TestGuardReads(t *testing.T) {
	const write, read = false, true
	for _, steps := range [][]struct {
		reads  bool
		token  fence.Token
		newest fence.Token // that refuses it; 0: it passes
	}{
		{{read, 7, 0}, {read, 5, 0}, {read, 9, 0}, {write, 8, 9}, {write, 9, 0}, {read, 8, 9}, {read, 9, 0}},
		{{write, 5, 0}, {read, 4, 5}, {write, 5, 0}, {read, 6, 0}, {write, 5, 6}, {read, 5, 0}, {write, 7, 0}},
		// What is refused leaves nothing behind.
		{{write, 5, 0}, {read, 3, 5}, {write, 4, 5}, {read, 5, 0}, {write, 5, 0}},
	} {
		var g fence.Guard
		for i, s := range steps {
			run, called := g.Do, false
			if s.reads {
				run = g.Read
			}
			err := run(t.Context(), "a", s.token, func() error { called = true; return nil })
			var stale *fence.StaleError
			if errors.As(err, &stale) != (s.newest > 0) || called != (s.newest == 0) ||
				stale != nil && stale.Newest != s.newest {
				t.Errorf("step %d, %+v: %v, called %v", i, s, err, called)
			}
		}
	}
	var g fence.Guard
	if err := g.Read(t.Context(), "a", 0, nil); !errors.Is(err, fence.ErrInvalidToken) {
		t.Error(err)
	}
}

// Reads run together, 64 at most, and no write beside them; one that waits, of either kind, ends
// with its context and leaves nothing behind.
func TestGuardReadsTogether(t *testing.T) {
	var g fence.Guard
	var all sync.WaitGroup
	inside, leave := make(chan struct{}), make(chan struct{})
	for range 64 {
		all.Go(func() {
			g.Read(t.Context(), "a", 5, func() error {
				inside <- struct{}{}
				<-leave
				return nil
			})
		})
	}
	for range 64 {
		<-inside
	}
	for _, run := range []func(context.Context, string, fence.Token, func() error) error{g.Read, g.Do, g.Read, g.Do} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := run(ctx, "a", 9, func() error { t.Error("it runs beside them"); return nil }); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
	close(leave)
	all.Wait()
	if err := g.Do(t.Context(), "a", 5, func() error { return nil }); err != nil {
		t.Errorf("a wait that was given up has left something: %v", err)
	}
}

// A map is read and written by many: the race detector, and what was read, show who was beside
// whom.
func TestGuardReadsUnderLoad(t *testing.T) {
	var g fence.Guard
	var all sync.WaitGroup
	data := map[int]int{}
	for i := range 8 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for n := range 500 {
				token := fence.Token(1 + n + random.IntN(3))
				if random.IntN(3) > 0 {
					g.Read(t.Context(), "a", token, func() error {
						if len(data) > 0 && data[0] != data[1] {
							t.Error("a write was seen half")
						}
						return nil
					})
					continue
				}
				g.Do(t.Context(), "a", token, func() error {
					data[0] = n
					data[1] = n
					return nil
				})
			}
		})
	}
	all.Wait()
}
