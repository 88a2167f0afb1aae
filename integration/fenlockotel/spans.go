package fenlockotel

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// spans makes the spans of one Locker.
type spans struct {
	tracer trace.Tracer
	names  bool

	mu   sync.Mutex
	open map[held]open // of locks that are held, and traced; whatever ends a lock ends its own
}

// held tells the locks of a group apart: no two have the same token.
type held struct {
	name  string
	token fence.Token
}

// open is a span that has not ended.
type open struct {
	span  trace.Span
	since time.Time
}

func newSpans(tracer trace.Tracer, names bool) *spans {
	return &spans{tracer: tracer, names: names, open: map[held]open{}}
}

func (s *spans) observer() fenlock.Observer {
	return fenlock.Observer{
		Acquire: s.acquired,
		Lost: func(_ context.Context, e fenlock.LostEvent) {
			s.end(held{e.Name, e.Token}, e.Held, e.Cause(), e.Err)
		},
		Release: func(_ context.Context, e fenlock.ReleaseEvent) {
			outcome := "released"
			if errors.Is(e.Err, fenlock.ErrNoQuorum) {
				outcome = "no_quorum"
			} else if e.Err != nil {
				outcome = "error"
			}
			s.end(held{e.Name, e.Token}, e.Held, outcome, e.Err)
		},
	}
}

// acquired makes the span of an acquisition, which has just ended, and begins that of the
// lock.
func (s *spans) acquired(ctx context.Context, e fenlock.AcquireEvent) {
	now := time.Now()
	outcome := e.Outcome()
	attributes := s.about(e.Name, e.Token, outcomeKey.String(outcome), waitedKey.Bool(e.Waited))
	_, span := s.tracer.Start(ctx, "fenlock acquire", trace.WithTimestamp(now.Add(-e.Took)),
		trace.WithAttributes(attributes...))
	if outcome == "no_quorum" || outcome == "error" { // the others are answers
		s.failed(span, outcome, e.Err)
	}
	span.End(trace.WithTimestamp(now))
	if e.Err != nil {
		return
	}
	_, span = s.tracer.Start(ctx, "fenlock hold", trace.WithTimestamp(now),
		trace.WithAttributes(s.about(e.Name, e.Token)...))
	if !span.IsRecording() {
		span.End() // it will not be seen
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[held{e.Name, e.Token}] = open{span, now}
}

// end ends the span of a lock that was held for so long. It does nothing if it has ended,
// or was not sampled.
func (s *spans) end(h held, lasted time.Duration, outcome string, err error) {
	s.mu.Lock()
	o, found := s.open[h]
	delete(s.open, h)
	s.mu.Unlock()
	if !found {
		return
	}
	o.span.SetAttributes(outcomeKey.String(outcome))
	if err != nil {
		s.failed(o.span, outcome, err)
	}
	o.span.End(trace.WithTimestamp(o.since.Add(lasted)))
}

// failed marks a span.
func (s *spans) failed(span trace.Span, outcome string, err error) {
	text := outcome
	if s.names {
		text = err.Error()
	}
	span.SetStatus(codes.Error, text)
}

func (s *spans) about(name string, token fence.Token, more ...attribute.KeyValue) []attribute.KeyValue {
	if s.names {
		more = append(more, nameKey.String(name))
	}
	if token != 0 {
		more = append(more, tokenKey.Int64(int64(token)))
	}
	return more
}
