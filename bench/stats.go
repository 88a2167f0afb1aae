package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// percentile returns the smallest value that at least the fraction p of all
// values does not exceed (nearest rank), or 0 if there are none. It does not
// change values.
func percentile[T cmp.Ordered](values []T, p float64) (v T) {
	if len(values) == 0 {
		return v
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func median[T cmp.Ordered](values []T) T { return percentile(values, 0.5) }

// inversions counts the pairs that are in the wrong order: 0 if the numbers
// ascend, n(n-1)/2 if they descend.
func inversions(order []int) (n int) {
	for i, a := range order {
		for _, b := range order[i+1:] {
			if b < a {
				n++
			}
		}
	}
	return n
}

// ratios returns a[i] ÷ b[i], as far as both go. The two of a pair were measured
// one right after the other, so a drift of the machine is in both.
func ratios[T ~int64 | ~float64](a, b []T) []float64 {
	all := make([]float64, min(len(a), len(b)))
	for i := range all {
		all[i] = float64(a[i]) / float64(b[i])
	}
	return all
}

// spread says a median, and between which values the middle 80 % are.
func spread(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f× (%.2f–%.2f)", median(values), percentile(values, 0.1), percentile(values, 0.9))
}
