package metrics

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Set has metrics, which Counter, Gauge and Histogram add. The zero Set has none. It is safe
// for concurrent use, and so are they.
type Set struct {
	mu       sync.Mutex
	families []*family
}

// Counter counts what can only become more.
type Counter struct{ family *family }

// Gauge is a value as it is now.
type Gauge struct{ family *family }

// Histogram counts values by how large they are.
type Histogram struct{ family *family }

// family is a metric with its series: those of one name.
type family struct {
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

// Counter adds a counter. Its methods take a value for each of the labels.
func (s *Set) Counter(name, help string, labels ...string) Counter {
	return Counter{s.add(&family{name: name, help: help, kind: "counter", labels: labels})}
}

// Gauge adds a gauge. Its methods take a value for each of the labels.
func (s *Set) Gauge(name, help string, labels ...string) Gauge {
	return Gauge{s.add(&family{name: name, help: help, kind: "gauge", labels: labels})}
}

// Histogram adds a histogram, whose buckets have the bounds. Observe takes a value for
// each of the labels.
func (s *Set) Histogram(name, help string, bounds []float64, labels ...string) Histogram {
	return Histogram{s.add(&family{name: name, help: help, kind: "histogram", bounds: bounds, labels: labels})}
}

// Add adds n, which is not negative.
func (c Counter) Add(n float64, values ...string) {
	if !(n >= 0) {
		panic(fmt.Sprintf("%s: %v is added to a counter", c.family.name, n))
	}
	c.family.change(values, func(s *series) { s.value += n })
}

// Add adds n.
func (g Gauge) Add(n float64, values ...string) {
	g.family.change(values, func(s *series) { s.value += n })
}

// Set sets the value.
func (g Gauge) Set(to float64, values ...string) {
	g.family.change(values, func(s *series) { s.value = to })
}

// Observe counts a value.
func (h Histogram) Observe(value float64, values ...string) {
	h.family.change(values, func(s *series) {
		i, _ := slices.BinarySearch(h.family.bounds, value) // a bound is in its bucket
		s.buckets[i]++
		s.value += value
	})
}

var (
	validName  = lazily(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	validLabel = lazily(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// lazily compiles an expression when it is first asked for: most programs have no metrics.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// add panics where what the program has written could not be read.
func (s *Set) add(f *family) *family {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range f.labels {
		if !validLabel().MatchString(l) || strings.HasPrefix(l, "__") || f.kind == "histogram" && l == "le" {
			panic(fmt.Sprintf("%s: %q is no label", f.name, l))
		}
	}
	switch {
	case !validName().MatchString(f.name):
		panic(fmt.Sprintf("%q is no name of a metric", f.name))
	case slices.ContainsFunc(s.families, func(other *family) bool { return other.name == f.name }):
		panic(f.name + " is there already")
	case !slices.IsSorted(f.bounds) || len(slices.Compact(slices.Clone(f.bounds))) != len(f.bounds):
		panic(f.name + ": the bounds are not in order")
	}
	f.set, f.series = s, map[string]*series{}
	s.families = append(s.families, f)
	return f
}

// change has one of the series changed, which is made if there is none with the values.
func (f *family) change(values []string, do func(*series)) {
	if len(values) != len(f.labels) {
		panic(fmt.Sprintf("%s has %d labels, not %d", f.name, len(f.labels), len(values)))
	}
	var room [128]byte
	key := room[:0]
	for _, v := range values {
		key = append(strconv.AppendInt(key, int64(len(v)), 10), ',')
		key = append(key, v...)
	}
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	s := f.series[string(key)]
	if s == nil {
		s = &series{values: slices.Clone(values)}
		if f.kind == "histogram" {
			s.buckets = make([]uint64, len(f.bounds)+1)
		}
		f.series[string(key)] = s
	}
	do(s)
}
