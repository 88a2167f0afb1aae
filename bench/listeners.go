package main

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/integration/fenlockotel"
)

// What it costs to have an Observer: the same client with several, and with none.

var (
	measured = listening("fenlock/metrics", "with the metrics of integration/fenlockotel, into OpenTelemetry's SDK",
		func() (fenlock.Observer, error) {
			return observer(fenlockotel.New(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())), nil))
		})
	spanned = listening("fenlock/spans", "with the spans of integration/fenlockotel, all of which are recorded, and thrown away",
		func() (fenlock.Observer, error) {
			return observer(fenlockotel.New(nil, trace.NewTracerProvider(trace.WithSpanProcessor(deaf{}))))
		})
	listeners = []contender{fenlocks, measured, spanned}
)

// deaf is a span processor that does nothing.
type deaf struct{ trace.SpanProcessor }

func (deaf) OnStart(context.Context, trace.ReadWriteSpan) {}
func (deaf) OnEnd(trace.ReadOnlySpan)                     {}

func observer(t *fenlockotel.Telemetry, err error) (fenlock.Observer, error) {
	if err != nil {
		return fenlock.Observer{}, err
	}
	return t.Observer(), nil
}

func listening(name, what string, observe func() (fenlock.Observer, error)) contender {
	return contender{name, what, func(b *bench) (client, error) {
		o, err := observe()
		if err != nil {
			return nil, err
		}
		return openObserved(b, o)
	}}
}

// listenersResult has the cycles of a figure: one at a time, and with many lockers.
type listenersResult struct {
	*turns
	lockers  []int                 // of each setting
	cycles   []map[string]observed // by setting and contender
	failures int                   // of acquire or release, and lockers that hung
}

// observed is how long a cycle took, and the CPU time that it cost the client, in the mean
// of each round. On a machine that others use as well the second says more.
type observed struct{ wall, cpu []time.Duration }

func runListeners(ctx context.Context, b *bench, who []contender) (*listenersResult, error) {
	t, err := b.takeTurns(ctx, who, 1)
	if err != nil {
		return nil, err
	}
	defer t.close()
	r := &listenersResult{turns: t, lockers: []int{1, b.size.crowd}}
	for _, lockers := range r.lockers {
		all := map[string]observed{}
		r.cycles = append(r.cycles, all)
		locks := names("listeners", lockers)
		err := t.each(b.size.rounds+1, func(round, i int) error {
			if err := sleep(ctx, loadPause); err != nil {
				return err
			}
			before := cpuTime()
			run, err := measureLoad(ctx, t.clients[i][0], locks, b.size.load/2)
			if err != nil {
				return err
			}
			r.failures += run.failures + run.hung
			if o := all[t.names[i]]; round > 0 { // the first one opens connections
				o.wall = append(o.wall, time.Duration(float64(time.Second)/run.rate))
				o.cpu = append(o.cpu, time.Duration(float64(cpuTime()-before)/run.cycles))
				all[t.names[i]] = o
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%d lockers: %w", lockers, err)
		}
	}
	return r, nil
}

func (r *listenersResult) report(b *bench) *table {
	t := &table{
		title: "listeners: what an Observer costs those who acquire and release, each a lock of its own",
		method: fmt.Sprintf("%d rounds of %v each, interleaved; CPU is the client's, by getrusage; the ratios are of the cycles of one round, their median (p10–p90)",
			b.size.rounds, b.size.load/2),
		header: []string{"lockers", "", "a cycle", "÷ fenlock", "its CPU", "÷ fenlock"},
	}
	for i, lockers := range r.lockers {
		none := r.cycles[i][fenlocks.name]
		for _, name := range r.names {
			o := r.cycles[i][name]
			t.row(fmt.Sprint(lockers), name, micros(median(o.wall)), finely(ratios(o.wall, none.wall)), micros(median(o.cpu)),
				finely(ratios(o.cpu, none.cpu)))
		}
	}
	if r.failures > 0 {
		t.note("%d acquisitions or releases failed; they are not counted as cycles: is this machine overloaded?", r.failures)
	}
	return t
}

// finely is spread with a digit more.
func finely(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f× (%.3f–%.3f)", median(values), percentile(values, 0.1), percentile(values, 0.9))
}
