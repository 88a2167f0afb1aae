// Package metrics tells Prometheus about locks: what integration/fenlockotel tells OpenTelemetry,
// with the names that this has in Prometheus. Use it in programs that want neither the SDK of one
// nor the client library of the other.
//
//	metric.go  counters, gauges and histograms
//	text.go    how they are written
//	locks.go   those of a Locker
//	serve.go   at an address
package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// Set has metrics, which Counter, Gauge and Histogram add. The zero Set has none. It is safe
// for concurrent use, and so are they.
type Set struct {
	mu      sync.Mutex
	metrics []*Metric
}

// Metric is a metric with its series: those of one name. Its methods take a value for each of the
// labels.
type Metric struct {
	set              *Set // has the mutex
	name, help, kind string
	labels           []string
	bounds           []float64 // of a histogram's buckets, without the last one, which has none
	series           map[string]*series
}

// series is one combination of the labels' values.
type series struct {
	values  []string
	value   float64  // of a histogram: the sum
	buckets []uint64 // one more than bounds; each has what is in no smaller one
}

// Counter adds a metric of what can only become more.
func (s *Set) Counter(name, help string, labels ...string) *Metric {
	return s.add(&Metric{name: name, help: help, kind: "counter", labels: labels})
}

// Gauge adds a metric that is a value as it is now.
func (s *Set) Gauge(name, help string, labels ...string) *Metric {
	return s.add(&Metric{name: name, help: help, kind: "gauge", labels: labels})
}

// Histogram adds a metric that counts values by how large they are, in buckets with these bounds.
func (s *Set) Histogram(name, help string, bounds []float64, labels ...string) *Metric {
	return s.add(&Metric{name: name, help: help, kind: "histogram", bounds: bounds, labels: labels})
}

func (s *Set) add(m *Metric) *Metric {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.set, m.series = s, map[string]*series{}
	s.metrics = append(s.metrics, m)
	return m
}

// Add adds n to a counter or a gauge.
func (m *Metric) Add(n float64, values ...string) {
	m.change(values, func(s *series) { s.value += n })
}

// Set sets a gauge.
func (m *Metric) Set(to float64, values ...string) {
	m.change(values, func(s *series) { s.value = to })
}

// SetBool sets a gauge to 1 for true, and to 0 for false.
func (m *Metric) SetBool(to bool, values ...string) {
	number := 0.0
	if to {
		number = 1
	}
	m.Set(number, values...)
}

// Observe counts a value in a histogram.
func (m *Metric) Observe(value float64, values ...string) {
	m.change(values, func(s *series) {
		i, _ := slices.BinarySearch(m.bounds, value) // a bound is in its bucket
		s.buckets[i]++
		s.value += value
	})
}

// change has one of the series changed, which is made if there is none with the values.
func (m *Metric) change(values []string, do func(*series)) {
	if len(values) != len(m.labels) {
		panic(fmt.Sprintf("%s has %d labels, not %d", m.name, len(m.labels), len(values)))
	}
	var room [128]byte
	key := room[:0]
	for _, v := range values {
		key = append(strconv.AppendInt(key, int64(len(v)), 10), ',')
		key = append(key, v...)
	}
	m.set.mu.Lock()
	defer m.set.mu.Unlock()
	s := m.series[string(key)]
	if s == nil {
		s = &series{values: slices.Clone(values), buckets: make([]uint64, len(m.bounds)+1)}
		m.series[string(key)] = s
	}
	do(s)
}
