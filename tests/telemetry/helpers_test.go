// Package telemetry_test has the tests of what is told to others about locks: of
// integration/fenlockotel with OpenTelemetry's SDK, which that module must not require; of
// "fenlock run --metrics" with a real Prometheus; and of the dashboard and the alerts.
package telemetry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/integration/fenlockotel"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// roundTrip is how long a request to a node of these tests takes.
const roundTrip = time.Millisecond

// slow is a node in memory with a round trip.
type slow struct{ *memnode.Node }

func (n slow) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	time.Sleep(roundTrip)
	return n.Node.Do(ctx, r)
}

// group has n nodes.
type group []*memnode.Node

func newGroup(n int) (g group) {
	for i := range n {
		g = append(g, memnode.New(string(rune('a'+i))))
	}
	return g
}

// locker returns a Locker of its own on the group.
func (g group) locker(t *testing.T, o fenlock.Observer) *fenlock.Locker {
	t.Helper()
	config := fenlock.Config{TTL: 10 * time.Second, MaxTTL: 10 * time.Second, MaxHold: time.Minute, Observer: o}
	for _, n := range g {
		config.Nodes = append(config.Nodes, slow{n.Share()})
	}
	l, err := fenlock.New(config)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, l *fenlock.Locker, name string) *fenlock.Lock {
	t.Helper()
	lock, err := l.Acquire(t.Context(), name)
	must(t, err)
	return lock
}

// measured is what a program with a MeterProvider would have exported.
type measured struct {
	reader *metric.ManualReader
	*fenlockotel.Telemetry
}

func measure(t *testing.T, options ...fenlockotel.Option) measured {
	t.Helper()
	reader := metric.NewManualReader()
	telemetry, err := fenlockotel.New(metric.NewMeterProvider(metric.WithReader(reader)), nil, options...)
	must(t, err)
	return measured{reader, telemetry}
}

// metrics returns them all, by name.
func (m measured) metrics(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	must(t, m.reader.Collect(context.Background(), &all))
	named := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		for _, one := range s.Metrics {
			named[one.Name] = one
		}
	}
	return named
}

// series returns the series of a metric, "attributes: value", and of a histogram "attributes:
// count, sum", in order. The prefix "fenlock." of the attributes is left out.
func (m measured) series(t *testing.T, name string) (all []string) {
	t.Helper()
	line := func(set attribute.Set, value string) {
		text := ""
		for _, kv := range set.ToSlice() {
			text += strings.TrimPrefix(string(kv.Key), "fenlock.") + "=" + kv.Value.String() + " "
		}
		all = append(all, strings.TrimSpace(strings.TrimSuffix(text, " ")+": "+value))
	}
	switch data := m.metrics(t)[name].Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			line(p.Attributes, fmt.Sprintf("%d, %v", p.Count, time.Duration(p.Sum*float64(time.Second)+.5)))
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			line(p.Attributes, fmt.Sprint(p.Value))
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			line(p.Attributes, fmt.Sprint(p.Value))
		}
	}
	slices.Sort(all)
	return all
}

// wants waits until all was told, and compares the series of a metric.
func (m measured) wants(t *testing.T, name string, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := m.series(t, name); !slices.Equal(got, want) {
		t.Errorf("%s has\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
