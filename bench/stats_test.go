package main

import (
	"slices"
	"testing"
	"time"
)

func TestInversions(t *testing.T) {
	for _, test := range []struct {
		order []int
		want  int
	}{
		{nil, 0},
		{[]int{0, 1, 2, 3}, 0},
		{[]int{2, 5, 9}, 0}, // some are missing, the rest is in order
		{[]int{1, 0, 2, 3}, 1},
		{[]int{3, 0, 1, 2}, 3},
		{[]int{3, 2, 1, 0}, 6},
	} {
		if got := inversions(test.order); got != test.want {
			t.Errorf("inversions(%v) = %d, want %d", test.order, got, test.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	values := []int{50, 10, 40, 20, 30}
	for _, test := range []struct {
		p    float64
		want int
	}{{0, 10}, {0.1, 10}, {0.2, 10}, {0.21, 20}, {0.5, 30}, {0.9, 50}, {0.99, 50}, {1, 50}} {
		if got := percentile(values, test.p); got != test.want {
			t.Errorf("percentile %v of %v = %d, want %d", test.p, values, got, test.want)
		}
	}
	if !slices.Equal(values, []int{50, 10, 40, 20, 30}) {
		t.Errorf("the values were changed: %v", values)
	}
	if got := median([]int{}); got != 0 {
		t.Errorf("the median of nothing is %d", got)
	}
}

func TestRatios(t *testing.T) {
	// Pair by pair, which is not the ratio of the medians.
	got := ratios([]time.Duration{10, 400, 30}, []time.Duration{10, 100, 10})
	if want := []float64{1, 4, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := ratios([]float64{1, 2, 3}, []float64{2}); !slices.Equal(got, []float64{0.5}) {
		t.Errorf("a pair and two halves: %v", got)
	}
	if got := ratios([]float64{1}, nil); len(got) != 0 {
		t.Errorf("no pair: %v", got)
	}
	if got, want := spread([]float64{3, 1, 2}), "2.00× (1.00–3.00)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := spread(nil); got != "-" {
		t.Errorf("of nothing: %q", got)
	}
}
