package telemetry_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/integration/fenlockotel"
	"github.com/fenlock/fenlock/node/memnode"
)

// observed returns a Locker and a guard that tell Prometheus, at /metrics, and whatever
// tracing the program has.
func observed(nodes []fenlock.Node, mux *http.ServeMux) (*fenlock.Locker, *fence.Guard, error) {
	exporter, err := prometheus.New(prometheus.WithoutScopeInfo(),
		prometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, nil, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	telemetry, err := fenlockotel.New(provider, otel.GetTracerProvider())
	if err != nil {
		return nil, nil, err
	}
	mux.Handle("/metrics", promhttp.Handler())
	locker, err := fenlock.New(fenlock.Config{Nodes: nodes, Observer: telemetry.Observer()})
	return locker, &fence.Guard{Refused: telemetry.Refused}, err
}

func Example() {
	var mux http.ServeMux
	locker, guard, err := observed([]fenlock.Node{memnode.New("a node")}, &mux)
	if err != nil {
		log.Fatal(err)
	}
	err = locker.Do(context.Background(), "orders/42", func(ctx context.Context, token fence.Token) error {
		return guard.Do(ctx, "orders", token, func() error { return nil })
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := locker.Close(); err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "fenlock_acquire_duration_seconds_count") ||
			strings.HasPrefix(line, "fenlock_guard_refused_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// fenlock_acquire_duration_seconds_count{fenlock_outcome="acquired"} 1
	// fenlock_guard_refused_total 0
}
