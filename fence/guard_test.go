package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/quick"
	"testing/synctest"

	"github.com/fenlock/fenlock/fence"
)

// The scenario that the guard is there for: client 1 has token 33, is paused,
// client 2 writes with 34, client 1 wakes up.
func ExampleGuard() {
	var guard fence.Guard
	var value string
	write := func(token fence.Token, text string) {
		err := guard.Do(context.Background(), "orders/42", token, func() error {
			value = text
			return nil
		})
		fmt.Printf("%s: %v\n", text, err)
	}
	write(33, "first of client 1")
	write(34, "client 2")
	write(33, "second of client 1")
	fmt.Println("value:", value)
	// Output:
	// first of client 1: <nil>
	// client 2: <nil>
	// second of client 1: fence: stale token for "orders/42": 33 is older than 34
	// value: client 2
}

// Any sequence of writes to any resources does what the naive rule says.
func TestGuardFollowsTheRule(t *testing.T) {
	property := func(steps []struct{ Resource, Token uint8 }) bool {
		var guard fence.Guard
		newest := map[string]fence.Token{}
		tokens := []fence.Token{0, 1, 2, 3, 4, fence.MaxToken, fence.MaxToken + 1, 1<<64 - 1}
		for _, step := range steps {
			name, token := fmt.Sprint(step.Resource%3), tokens[step.Token%8]
			before, called := newest[name], false
			err := guard.Do(t.Context(), name, token, func() error { called = true; return nil })
			switch {
			case !token.Valid():
				if called || !errors.Is(err, fence.ErrInvalidToken) || errors.Is(err, fence.ErrStale) {
					return false
				}
			case token < before:
				var stale *fence.StaleError
				if called || !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) ||
					*stale != (fence.StaleError{Resource: name, Token: token, Newest: before}) {
					return false
				}
			default:
				if !called || err != nil {
					return false
				}
				newest[name] = token
			}
			if guard.Newest(name) != newest[name] {
				return false
			}
		}
		return true
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 500}); err != nil {
		t.Error(err)
	}
}

// A write that failed may have written a part: its token stays, and the resource
// is free for the next write.
func TestGuardRecordsTokenBeforeWrite(t *testing.T) {
	broken := errors.New("disk full")
	for name, write := range map[string]func() error{
		"error":  func() error { return broken },
		"panic":  func() error { panic(broken) },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			var guard fence.Guard
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() {
					if got := recover(); got != nil && got != broken {
						t.Errorf("panic with %v", got)
					}
				}()
				err := guard.Do(t.Context(), "r", 34, func() error {
					if got := guard.Newest("r"); got != 34 {
						t.Errorf("while write runs the newest is %d", got)
					}
					return write()
				})
				if err != broken {
					t.Errorf("write's error came back as %v", err)
				}
			}()
			<-done
			err := guard.Do(t.Context(), "r", 33, func() error { t.Error("an older write ran"); return nil })
			if !errors.Is(err, fence.ErrStale) {
				t.Errorf("older token: %v", err)
			}
			if err := guard.Do(t.Context(), "r", 34, func() error { return nil }); err != nil {
				t.Errorf("same token again: %v", err)
			}
		})
	}
}

// While 33 writes, 34 waits for the resource's turn, and another resource does
// not. Checking the token first and writing afterwards would lose 34's write.
func TestGuardRunsOneWriteAtATime(t *testing.T) {
	type do func(ctx context.Context, resource string, token fence.Token, write func() error) error
	run := func(t *testing.T, do do) (order []string) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			write := func(resource string, token fence.Token, pause <-chan struct{}) {
				do(t.Context(), resource, token, func() error {
					<-pause
					order = append(order, fmt.Sprint(resource, token)) // racy only if the guard is broken
					return nil
				})
			}
			now := make(chan struct{})
			close(now)
			go write("a", 33, release)
			synctest.Wait()
			go write("a", 34, now)
			synctest.Wait()
			go write("a", 33, now) // not stale yet, but when its turn comes
			synctest.Wait()
			go write("b", 1, now)
			synctest.Wait()
			close(release)
			synctest.Wait()
		})
		return order
	}

	var guard fence.Guard
	if got, want := run(t, guard.Do), []string{"b1", "a33", "a34"}; !slices.Equal(got, want) {
		t.Errorf("writes in the order %v, want %v", got, want)
	}

	var checked fence.Guard
	checkThenAct := func(ctx context.Context, resource string, token fence.Token, write func() error) error {
		if err := checked.Do(ctx, resource, token, func() error { return nil }); err != nil {
			return err
		}
		return write()
	}
	if got, lost := run(t, checkThenAct), []string{"a34", "b1", "a33"}; !slices.Equal(got, lost) {
		t.Errorf("check-then-act wrote in the order %v; this test should see it lose 34's write", got)
	}
}

func TestGuardWaitEndsWithContext(t *testing.T) {
	lost := errors.New("the lock is lost")
	synctest.Test(t, func(t *testing.T) {
		var guard fence.Guard
		release := make(chan struct{})
		go guard.Do(t.Context(), "r", 33, func() error { <-release; return nil })
		synctest.Wait()

		ctx, cancel := context.WithCancelCause(t.Context())
		var err error
		go func() {
			err = guard.Do(ctx, "r", 34, func() error { t.Error("write was called"); return nil })
		}()
		synctest.Wait()
		cancel(lost)
		synctest.Wait()
		if !errors.Is(err, context.Canceled) || !errors.Is(err, lost) {
			t.Errorf("error %v", err)
		}
		if got := guard.Newest("r"); got != 33 {
			t.Errorf("newest is %d: a write that never began was recorded", got)
		}

		close(release)
		synctest.Wait()
		// Free, but the context is done already: never left to chance.
		for range 100 {
			if err := guard.Do(ctx, "r", 35, func() error { return nil }); !errors.Is(err, lost) {
				t.Fatalf("error %v with a context that is done", err)
			}
		}
		if err := guard.Do(t.Context(), "r", 33, func() error { return nil }); err != nil {
			t.Errorf("the turn was not given back: %v", err)
		}
	})
}

// Many writers with shuffled tokens: what was written only ever grows, the
// largest token wins. The race detector sees it if two writes overlap.
func TestGuardUnderLoad(t *testing.T) {
	const writers = 200
	var guard fence.Guard
	var history []fence.Token
	var wg sync.WaitGroup
	for _, n := range rand.Perm(writers) {
		token := fence.Token(n + 1)
		wg.Go(func() {
			for range 5 {
				err := guard.Do(t.Context(), "r", token, func() error {
					history = append(history, token)
					return nil
				})
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if !slices.IsSorted(history) {
		t.Errorf("a write landed after a newer one: %v", history)
	}
	if last := history[len(history)-1]; last != writers || guard.Newest("r") != writers {
		t.Errorf("last write %d, newest %d, want %d", last, guard.Newest("r"), writers)
	}
}

func TestGuardTellsWhatItRefuses(t *testing.T) {
	type key struct{}
	var refused []string
	g := fence.Guard{Refused: func(ctx context.Context, e *fence.StaleError) {
		refused = append(refused, fmt.Sprintf("%v %v", e, ctx.Value(key{})))
	}}
	ctx := context.WithValue(t.Context(), key{}, "writer")
	for _, token := range []fence.Token{3, 2, 3, 4, 1} {
		g.Do(ctx, "r", token, func() error { return nil })
	}
	if fmt.Sprint(refused) != `[fence: stale token for "r": 2 is older than 3 writer fence: stale token for "r": 1 is older than 4 writer]` {
		t.Errorf("told %q", refused)
	}
}
