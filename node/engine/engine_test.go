package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fenlock/fenlock/node"
)

func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLifetime()
		ctx, over, err := l.Request(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer over()
		_, begun, err := l.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Spawn(func() { <-l.Done() }); err != nil {
			t.Fatal(err)
		}
		if !l.End() || l.End() {
			t.Error("the first End is not the first")
		}
		<-ctx.Done()
		if context.Cause(ctx) != ErrClosed || context.Cause(l) != ErrClosed {
			t.Errorf("%v, %v", context.Cause(ctx), context.Cause(l))
		}
		waited := false
		go func() { l.Wait(); waited = true }()
		if synctest.Wait(); waited {
			t.Error("Wait has not waited for what was begun")
		}
		begun()
		if synctest.Wait(); !waited {
			t.Error("Wait still waits")
		}
		if _, _, err := l.Request(t.Context()); !errors.Is(err, ErrClosed) || !errors.Is(err, node.ErrNotSent) {
			t.Errorf("%v", err)
		}
		if err := l.Spawn(func() { t.Error("it was begun") }); err != ErrClosed {
			t.Errorf("%v", err)
		}
	})
}

func TestRequestOfADoneContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := NewLifetime().Request(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v", err)
	}
}

// Operations on a stripe go in their order, one at a time; on others they do not wait.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		take := func(stripe int) func() {
			leave, err := turns.Take(t.Context(), stripe)
			if err != nil {
				t.Fatal(err)
			}
			return leave
		}
		first, other := take(1), take(2)
		var order []int
		for i := range 3 {
			go func() {
				leave := take(1)
				order = append(order, i)
				leave()
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := turns.Take(ctx, 1); err != context.Canceled {
			t.Errorf("%v", err)
		}
		if len(order) != 0 {
			t.Errorf("%v before the first has left", order)
		}
		first()
		if synctest.Wait(); len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
			t.Errorf("%v", order)
		}
		if other(); len(turns.now) != 0 {
			t.Errorf("%d stripes are remembered", len(turns.now))
		}
	})
}

func TestErrors(t *testing.T) {
	plain := errors.New("it burns")
	if err := Named("etcd h", "release", Explain(plain, "call someone", true)); !errors.Is(err, node.ErrMisconfigured) ||
		!errors.Is(err, plain) {
		t.Errorf("%v", err)
	}
	if Named("etcd h", "release", nil) != nil || Explain(nil, "call", true) != nil ||
		Explain(plain, "", false) != plain {
		t.Error("what need not be changed was")
	}
	hostile := node.NotSent(errors.New("\x1b[2J\x00" + strings.Repeat("ö", 1<<20)))
	if err := Explain(Explain(hostile, "call someone", true), "call someone", true); len(err.Error()) > mostText+100 ||
		strings.ContainsAny(err.Error(), "\x1b\x00") || !strings.HasSuffix(err.Error(), "... (call someone)") ||
		!errors.Is(err, node.ErrNotSent) || !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("%d bytes, %.100q", len(err.Error()), err)
	}
	_, closed := net.Dial("tcp", "127.0.0.1:1") // a port of the system's
	nowhere := fmt.Errorf("rpc: %v", &net.DNSError{Err: "no such host", Name: "x"})
	for advice, err := range map[string]error{"nothing listens there": closed, "correct the name": nowhere} {
		once := Explain(err, "", false)
		if !strings.Contains(once.Error(), advice) || !errors.Is(once, err) || Explain(once, "", false) != once {
			t.Errorf("%v; want it with %q, once", once, advice)
		}
	}
	l := NewLifetime()
	ctx, cancel := context.WithCancel(t.Context())
	if Contextual(plain, ctx, l) != plain {
		t.Error("the context is not done")
	}
	cancel()
	if err := Contextual(node.NotSent(plain), ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, plain) ||
		!errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v", err)
	}
	l.End()
	if err := Contextual(plain, t.Context(), l); !errors.Is(err, ErrClosed) || !errors.Is(err, plain) {
		t.Errorf("%v", err)
	}
}
