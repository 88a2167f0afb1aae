package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/integration/fenlockotel"
)

// recorder is where the spans of a program with a TracerProvider go.
type recorder struct {
	*tracetest.SpanRecorder
	provider *trace.TracerProvider
}

func newRecorder(options ...trace.TracerProviderOption) recorder {
	r := tracetest.NewSpanRecorder()
	return recorder{r, trace.NewTracerProvider(append(options, trace.WithSpanProcessor(r))...)}
}

// wants waits until all was told, and compares the spans that have ended: "name from start
// to end: attributes: status", times from since.
func (r recorder) wants(t *testing.T, since time.Time, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for _, s := range r.Ended() {
		text := fmt.Sprintf("%s from %v to %v:", s.Name(), s.StartTime().Sub(since), s.EndTime().Sub(since))
		for _, a := range s.Attributes() {
			value := a.Value.String()
			if a.Key == "fenlock.lock.token" {
				value = "N"
			}
			text += " " + strings.TrimPrefix(string(a.Key), "fenlock.") + "=" + value
		}
		for _, e := range s.Events() {
			text += " [" + e.Name + "]"
		}
		if s.Status().Description != "" {
			description, _, _ := strings.Cut(s.Status().Description, "; ") // what each node said
			text += ": " + s.Status().Code.String() + " " + description
		}
		got = append(got, text)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("spans\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	r.Reset()
}

// traced returns a Locker whose spans are recorded, with a span of the caller's.
func traced(t *testing.T, r recorder, g group, options ...fenlockotel.Option) (context.Context, *fenlock.Locker) {
	t.Helper()
	telemetry, err := fenlockotel.New(nil, r.provider, options...)
	must(t, err)
	l := g.locker(t, telemetry.Observer())
	ctx, span := r.provider.Tracer("test").Start(t.Context(), "caller")
	t.Cleanup(func() { span.End() })
	return ctx, l
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := newGroup(3), newRecorder()
		ctx, l := traced(t, r, g)
		begin := time.Now()
		lock, err := l.Acquire(ctx, "a")
		must(t, err)
		synctest.Wait()
		caller := r.Started()[0].SpanContext()
		for _, s := range r.Started()[1:] {
			if s.Parent().SpanID() != caller.SpanID() || s.SpanContext().TraceID() != caller.TraceID() {
				t.Errorf("%s is not the caller's child", s.Name())
			}
		}
		r.wants(t, begin, "fenlock acquire from 0s to 1ms: outcome=acquired waited=false lock.name=a lock.token=N")

		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		l.Acquire(short, "a")
		r.wants(t, begin, "fenlock acquire from 1ms to 1.001s: outcome=held waited=true lock.name=a")
		must(t, lock.Release(t.Context()))
		r.wants(t, begin, "fenlock hold from 1ms to 1.001s: lock.name=a lock.token=N outcome=released")

		// It ends by itself, and its release says nothing new.
		lock, err = l.Acquire(ctx, "a")
		must(t, err)
		time.Sleep(2 * time.Minute)
		if err := lock.Release(t.Context()); !errors.Is(err, fenlock.ErrMaxHold) {
			t.Error(err)
		}
		r.wants(t, begin, "fenlock acquire from 1.002s to 1.003s: outcome=acquired waited=false lock.name=a lock.token=N",
			"fenlock hold from 1.003s to 1m1.002s: lock.name=a lock.token=N outcome=max_hold: Error fenlock: the lock was held for the maximum time: \"a\": 1m0s")

		// Too few nodes hear of the release.
		begin = time.Now()
		lock, err = l.Acquire(ctx, "a")
		must(t, err)
		for _, n := range g {
			n.Crash()
		}
		lock.Release(t.Context())
		l.TryAcquire(ctx, "a")
		r.wants(t, begin, "fenlock acquire from 0s to 1ms: outcome=acquired waited=false lock.name=a lock.token=N",
			"fenlock hold from 1ms to 1ms: lock.name=a lock.token=N outcome=no_quorum: Error fenlock: release \"a\": no quorum: 3 of 3 nodes are missing, 2 are needed",
			"fenlock acquire from 2ms to 3ms: outcome=no_quorum waited=false lock.name=a: Error fenlock: acquire \"a\": no quorum: 2 of 3 nodes are missing, 2 are needed")
	})
}

// A lock that is never released leaves no span behind: neither one that was lost, nor one
// whose Locker was closed.
func TestSpansOfLocksThatNobodyReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		_, l := traced(t, r, newGroup(3))
		for i := range 10 {
			take(t, l, fmt.Sprint(i))
		}
		time.Sleep(30 * time.Second)
		l.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		if started, ended := len(r.Started())-1, len(r.Ended()); started != 20 || ended != started {
			t.Errorf("%d spans were started, and %d have ended", started, ended)
		}
	})
}

func TestNamesInSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := newGroup(3), newRecorder()
		ctx, l := traced(t, r, g, fenlockotel.WithoutNamesInSpans())
		begin := time.Now()
		_, err := l.Acquire(ctx, "secret")
		must(t, err)
		for _, n := range g {
			n.Crash()
		}
		l.TryAcquire(ctx, "secret")
		time.Sleep(time.Minute)
		r.wants(t, begin, "fenlock acquire from 0s to 1ms: outcome=acquired waited=false lock.token=N",
			"fenlock acquire from 1ms to 2ms: outcome=no_quorum waited=false: Error no_quorum",
			"fenlock hold from 1ms to 9.898s: lock.token=N outcome=lost: Error lost")
	})
}

// A program that samples nothing keeps nothing.
func TestSpansThatAreNotSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(trace.WithSampler(trace.NeverSample()))
		_, l := traced(t, r, newGroup(3))
		must(t, take(t, l, "a").Release(t.Context()))
		r.wants(t, time.Now())
	})
}

func TestGuardsInSpans(t *testing.T) {
	r := newRecorder()
	refuse := func(options ...fenlockotel.Option) {
		telemetry, err := fenlockotel.New(nil, r.provider, options...)
		must(t, err)
		ctx, span := r.provider.Tracer("test").Start(t.Context(), "writer")
		guard := fence.Guard{Refused: telemetry.Refused}
		for _, token := range []fence.Token{7, 6} {
			guard.Do(ctx, "orders", token, func() error { return nil })
		}
		span.End()
	}
	refuse()
	refuse(fenlockotel.WithoutNamesInSpans())
	for i, want := range []string{"fenlock.lock.token=6 fenlock.guard.newest_token=7 fenlock.guard.resource=orders",
		"fenlock.lock.token=6 fenlock.guard.newest_token=7"} {
		events := r.Ended()[i].Events()
		if len(events) != 1 || events[0].Name != "fenlock guard refused" {
			t.Fatalf("events %v", events)
		}
		var got []string
		for _, a := range events[0].Attributes {
			got = append(got, string(a.Key)+"="+a.Value.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
