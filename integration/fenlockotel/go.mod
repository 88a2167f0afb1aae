module github.com/fenlock/fenlock/integration/fenlockotel

go 1.25.0

require (
	github.com/fenlock/fenlock v0.1.0
	go.opentelemetry.io/otel v1.45.0
	go.opentelemetry.io/otel/metric v1.45.0
	go.opentelemetry.io/otel/trace v1.45.0
)

require github.com/cespare/xxhash/v2 v2.3.0 // indirect
