// Package metrics tells Prometheus about locks: what integration/fenlockotel tells OpenTelemetry,
// with the names that this has in Prometheus. Use it in programs that want neither the SDK of one
// nor the client library of the other.
//
//	family.go  counters, gauges and histograms
//	text.go    how they are written
//	locks.go   those of a Locker
//	serve.go   at an address
package metrics
