// Package fenlockotel tells OpenTelemetry about locks: metrics and spans, by the API
// packages only.
//
//	telemetry, err := fenlockotel.New(otel.GetMeterProvider(), otel.GetTracerProvider())
//	...
//	locker, err := fenlock.New(fenlock.Config{Nodes: nodes, Observer: telemetry.Observer()})
//	guard := fence.Guard{Refused: telemetry.Refused}
//
// Times are in seconds. Attributes have few values, however many locks there are: names of
// locks are in spans only, unless WithNamesInMetrics and WithoutNamesInSpans say otherwise.
//
//	fenlock.acquire.duration  histogram  of each Acquire and TryAcquire, by fenlock.outcome:
//	                                     acquired, held, no_quorum, cancelled or error
//	fenlock.wait.duration     histogram  the same of those that had to wait
//	fenlock.waiting           up-down    callers that wait now
//	fenlock.held              up-down    locks that are held now
//	fenlock.hold.duration     histogram  from the acquisition to the release or the loss
//	fenlock.extend.left       histogram  when an extension had ended, by fenlock.outcome
//	fenlock.validity.left     histogram  when a lock was released: near 0, extensions fail;
//	                                     not of one that a release gave and that was not extended yet
//	fenlock.lost              counter    by fenlock.cause: lost or max_hold
//	fenlock.node.duration     histogram  of each request to a node, by fenlock.node.name,
//	                                     fenlock.operation and fenlock.outcome: granted, held,
//	                                     outrun, lost, rejoining or unknown (no answer)
//	fenlock.node.admitted     gauge      by fenlock.node.name: 1 while its vote counts, 0
//	                                     while it is down, late, out or misconfigured
//	fenlock.guard.refused     counter    writes that a guard has refused for their token
//
// The spans are "fenlock acquire" and, from then to the release or the loss, "fenlock hold". Both
// are children of the span in the context given to Acquire. They are made when they have ended or
// begun already, with the times that they had.
package fenlockotel

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fenlock/fenlock"
)

// scope is the instrumentation scope.
const scope = "github.com/fenlock/fenlock/integration/fenlockotel"

// Telemetry has the instruments. It is safe for concurrent use, for any number of Lockers
// and guards.
type Telemetry struct {
	meters       *meters      // nil without a MeterProvider
	tracer       trace.Tracer // nil without a TracerProvider
	namesInSpans bool
}

// Option is an argument of New.
type Option func(*options)

type options struct{ namesInMetrics, namesInSpans bool }

// WithNamesInMetrics adds fenlock.lock.name to what is measured of locks, and
// fenlock.guard.resource to fenlock.guard.refused. Each name is then a series of its own, in
// this process and in whatever stores them: it is for programs with few names.
func WithNamesInMetrics() Option { return func(o *options) { o.namesInMetrics = true } }

// WithoutNamesInSpans leaves names of locks and resources, and texts of errors, which have
// them, out of spans.
func WithoutNamesInSpans() Option { return func(o *options) { o.namesInSpans = false } }

// New makes the instruments. A provider that is nil makes none, and what it would have
// been told costs nothing. The error is the MeterProvider's.
func New(m metric.MeterProvider, t trace.TracerProvider, settings ...Option) (*Telemetry, error) {
	o := options{namesInSpans: true}
	for _, set := range settings {
		set(&o)
	}
	telemetry := &Telemetry{namesInSpans: o.namesInSpans}
	if t != nil {
		telemetry.tracer = t.Tracer(scope)
	}
	if m == nil {
		return telemetry, nil
	}
	var err error
	telemetry.meters, err = newMeters(m.Meter(scope), o.namesInMetrics)
	return telemetry, err
}

// Observer returns what goes into Config.Observer, one for each Locker.
// fenlock.JoinObservers joins it with others. It hears nothing that is not needed.
func (t *Telemetry) Observer() fenlock.Observer {
	var all []fenlock.Observer
	if t.meters != nil {
		all = append(all, t.meters.observer())
	}
	if t.tracer != nil {
		all = append(all, newSpans(t.tracer, t.namesInSpans).observer())
	}
	return fenlock.JoinObservers(all...)
}
