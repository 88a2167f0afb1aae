package fenlockotel

// The tests of what is exported are in tests/telemetry, which has the SDK.

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// sampler is a Tracer all of whose spans are recorded.
type sampler struct{ noop.Tracer }

type recorded struct{ noop.Span }

func (recorded) IsRecording() bool { return true }

func (sampler) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, recorded{}
}

// What is kept of a lock goes with it, however it ends, and nothing is kept of what was not
// acquired.
func TestNothingIsKept(t *testing.T) {
	s := newSpans(sampler{}, true)
	o, ctx := s.observer(), context.Background()
	for i := range 100 {
		token := fence.Token(i + 1)
		o.Acquire(ctx, fenlock.AcquireEvent{Name: "a", Err: fenlock.ErrClosed})
		o.Acquire(ctx, fenlock.AcquireEvent{Name: "a", Token: token})
		if len(s.open) != 1 {
			t.Fatalf("%d spans are open", len(s.open))
		}
		lost := fenlock.LostEvent{Name: "a", Token: token, Err: fenlock.ErrLost}
		switch i % 3 {
		case 0:
			o.Release(ctx, fenlock.ReleaseEvent{Name: "a", Token: token})
		case 1:
			o.Lost(ctx, lost)
		case 2:
			o.Lost(ctx, lost)
			o.Release(ctx, fenlock.ReleaseEvent{Name: "a", Token: token, Err: fenlock.ErrLost})
		}
		if len(s.open) != 0 {
			t.Fatalf("%d spans are open", len(s.open))
		}
	}
}
