package fenlockotel_test

import (
	"context"
	"fmt"
	"log"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/integration/fenlockotel"
	"github.com/fenlock/fenlock/node/memnode"
)

// These providers drop what they are told. A program has those of an SDK, by
// otel.GetMeterProvider and otel.GetTracerProvider for example.
func ExampleNew() {
	telemetry, err := fenlockotel.New(metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		log.Fatal(err)
	}
	locker, err := fenlock.New(fenlock.Config{
		Nodes:    []fenlock.Node{memnode.New("n")},
		Observer: telemetry.Observer(), // fenlock.JoinObservers adds others
	})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	guard := fence.Guard{Refused: telemetry.Refused}

	err = locker.Do(context.Background(), "orders/42", func(ctx context.Context, token fence.Token) error {
		return guard.Do(ctx, "orders/42", token, func() error {
			fmt.Println("written under the lock")
			return nil
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: written under the lock
}
