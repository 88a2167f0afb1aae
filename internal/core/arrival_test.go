package core_test

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// observed is what NodeTime knows when each node shows a clock that is ahead of
// the client's by so much. The requests take no time.
func observed(offsets ...time.Duration) (c core.NodeTime) {
	for node, offset := range offsets {
		c.Observe(node, 0, 0, offset)
	}
	return c
}

func nodesTime(t *testing.T, c core.NodeTime, now, want time.Duration) {
	t.Helper()
	if got, ok := c.At(now); !ok || got != want {
		t.Errorf("the nodes' time at %v is %v, %v; expected %v", now, got, ok, want)
	}
}

// Nodes that have not told their time do not count, whichever they are. The clock was
// read about half way between request and answer.
func TestNodeTimeOfOneNode(t *testing.T) {
	var c core.NodeTime
	if at, ok := c.At(5); ok || at != 0 {
		t.Errorf("the time of no node is %v, %v", at, ok)
	}
	c.Observe(core.MaxNodes-1, 100, 140, 1000)
	nodesTime(t, c, 120, 1000)
	nodesTime(t, c, 140, 1020)
}

// "the median of the nodes' clocks", the larger one of two.
func TestNodeTimeMedian(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, c := range []struct {
		name    string
		offsets []time.Duration
		want    time.Duration
	}{
		{"one", []time.Duration{7}, 7},
		{"two", []time.Duration{7, 3}, 7},
		{"three that disagree", []time.Duration{30, 10, 20}, 20},
		{"four", []time.Duration{40, 10, 30, 20}, 30},
		{"five", []time.Duration{50, 10, 40, 20, 30}, 30},
		{"one of three is a year ahead", []time.Duration{20, year, 10}, 20},
		{"one of three is a year behind", []time.Duration{20, -year, 10}, 10},
		{"the client's clock is ahead of them all", []time.Duration{-20, -10, -30}, -20},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodesTime(t, observed(c.offsets...), 0, c.want)
			nodesTime(t, observed(c.offsets...), time.Hour, time.Hour+c.want)
		})
	}
}

// A sample of a shorter trip is better, and so is a newer one of the same.
func TestNodeTimeKeepsTheBestSample(t *testing.T) {
	var c core.NodeTime
	c.Observe(0, 0, 10, 1005) // 1000 ahead
	c.Observe(0, 20, 31, 9999)
	nodesTime(t, c, 0, 1000)
	c.Observe(0, 20, 30, 2025) // 2000 ahead, as short a trip
	nodesTime(t, c, 0, 2000)
	c.Observe(0, 40, 49, 3044) // 3000 ahead, one nanosecond shorter
	nodesTime(t, c, 0, 3000)
	// Other nodes' samples are their own.
	c.Observe(1, 50, 1050, 4550)
	nodesTime(t, c, 0, 4000)
}

// "sampleAge is when a sample that was better is given up": after 30 s.
func TestNodeTimeGivesUpOldSamples(t *testing.T) {
	const age = 30 * time.Second
	var c core.NodeTime
	c.Observe(0, 0, 10, 1005)
	c.Observe(0, 10+age-1-20, 10+age-1, 2000+age-1) // received one nanosecond too early
	nodesTime(t, c, 0, 1000)
	c.Observe(0, 10+age-20, 10+age, 2000+age)
	nodesTime(t, c, 0, 2000)
	// The new sample counts from its own time, with its own trip.
	c.Observe(0, 50+age, 50+age+21, 9999+age)
	nodesTime(t, c, 0, 2000)
	c.Observe(0, 50+age, 50+age+20, 3060+age)
	nodesTime(t, c, 0, 3000)
}
