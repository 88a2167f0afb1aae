package metrics

import (
	"bytes"
	"math"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// sample has one of everything.
func sample() *Set {
	var s Set
	s.Gauge("test_empty", "It has no series.")
	c := s.Counter("test_writes_total", "Counted, with \\ and\na line.", "who", "what")
	c.Add(1, "b", "x")
	c.Add(2.5, "b", "x")
	c.Add(1, "a", "quotes \", backslashes \\, lines\n, and \xff")
	c.Add(0, "", "")
	g := s.Gauge("test_level", "Of something.", "of")
	for _, v := range []struct {
		of string
		v  float64
	}{{"inf", math.Inf(1)}, {"minus", math.Inf(-1)}, {"nan", math.NaN()}, {"small", 1e-9}, {"large", 1795375306675355},
		{"zero", 0}} {
		g.Set(7, v.of)
		g.Set(v.v, v.of)
	}
	h := s.Histogram("test_size_seconds", "Of some.", []float64{.1, 1, 10}, "of")
	for _, v := range []float64{.05, .1, .1000001, 10, 11, math.Inf(1)} {
		h.Observe(v, "x")
	}
	s.Histogram("test_plain_seconds", "Without labels.", nil).Observe(.5)
	s.Gauge("test_now", "A plain one.").Add(-3)
	return &s
}

const sampleText = `# HELP test_writes_total Counted, with \\ and\na line.
# TYPE test_writes_total counter
test_writes_total{who="",what=""} 0
test_writes_total{who="a",what="quotes \", backslashes \\, lines\n, and ` + "\uFFFD" + `"} 1
test_writes_total{who="b",what="x"} 3.5
# HELP test_level Of something.
# TYPE test_level gauge
test_level{of="inf"} +Inf
test_level{of="large"} 1.795375306675355e+15
test_level{of="minus"} -Inf
test_level{of="nan"} NaN
test_level{of="small"} 1e-09
test_level{of="zero"} 0
# HELP test_size_seconds Of some.
# TYPE test_size_seconds histogram
test_size_seconds_bucket{of="x",le="0.1"} 2
test_size_seconds_bucket{of="x",le="1"} 3
test_size_seconds_bucket{of="x",le="10"} 4
test_size_seconds_bucket{of="x",le="+Inf"} 6
test_size_seconds_sum{of="x"} +Inf
test_size_seconds_count{of="x"} 6
# HELP test_plain_seconds Without labels.
# TYPE test_plain_seconds histogram
test_plain_seconds_bucket{le="+Inf"} 1
test_plain_seconds_sum 0.5
test_plain_seconds_count 1
# HELP test_now A plain one.
# TYPE test_now gauge
test_now -3
`

func TestText(t *testing.T) {
	if got := string(sample().Text()); got != sampleText {
		t.Errorf("text\n%s\nwant\n%s", got, sampleText)
	}
	if got := new(Set).Text(); len(got) != 0 {
		t.Errorf("a set without metrics is %q", got)
	}
}

// promtool has Prometheus' own parser and what is usual among metrics.
func promtool(text []byte) (said string, err error) {
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Prometheus understands it, and has nothing to say about the names.
func TestTextForPrometheus(t *testing.T) {
	var locks Set
	happens(NewLocks(&locks, "a \"lock\"").Observer())
	for _, text := range [][]byte{sample().Text(), locks.Text()} {
		if said, err := promtool(text); err != nil || said != "" {
			t.Errorf("promtool: %v: %s\n%s\n(scripts/install-servers.sh installs it)", err, said, text)
		}
	}
	for _, broken := range [][2]string{{`\"`, `"`}, {`\n, and`, "\n, and"}, {"+Inf\"} 6", "+Inf\"} six"},
		{"# TYPE test_level gauge", "# TYPE test_level gauges"}, {"# HELP test_now A plain one.\n", ""}, {"\uFFFD", "\xff"}} {
		text := strings.Replace(sampleText, broken[0], broken[1], 1)
		if _, err := promtool([]byte(text)); err == nil || text == sampleText {
			t.Errorf("%q in the place of %q is not noticed", broken[1], broken[0])
		}
	}
}

// Values that are alike when put together are different series.
func TestSeries(t *testing.T) {
	var s Set
	g := s.Gauge("a", "", "x", "y")
	all := [][2]string{{"1,", "2"}, {"1", ",2"}, {"1,2", ""}, {"", "1,2"}, {"2,ab", "c"}, {"2", "ab,c"}}
	for i, v := range all {
		g.Set(float64(i), v[0], v[1])
	}
	if n := strings.Count(string(s.Text()), "\na{"); n != len(all) {
		t.Errorf("%d series, want %d:\n%s", n, len(all), s.Text())
	}
}

// A reader has a whole picture, while others count.
func TestManyAtOnce(t *testing.T) {
	const each = 500
	var s Set
	c, h := s.Counter("a_total", "", "x"), s.Histogram("b", "", []float64{1, 2}, "x")
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for k := range each {
				c.Add(1, string(rune('a'+k%3)))
				h.Observe(float64(i%4), string(rune('a'+k%3)))
				if k%50 == 0 {
					s.Text()
				}
			}
		})
	}
	running.Wait()
	count := 0.0
	for _, series := range c.series {
		count += series.value
	}
	if count != 8*each {
		t.Errorf("%v were counted, want %d", count, 8*each)
	}
	if text := string(s.Text()); !strings.Contains(text, `b_bucket{x="a",le="+Inf"} 1336`) ||
		!strings.Contains(text, `b_bucket{x="a",le="1"} 668`) {
		t.Errorf("the histogram is\n%s", text)
	}
}
