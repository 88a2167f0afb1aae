package metrics

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// ContentType is that of what Text returns.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Text returns all metrics in Prometheus' text format 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/): metrics in the order in
// which they were added, series by their labels. A metric that has no series is left out.
func (s *Set) Text() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b []byte
	for _, m := range s.metrics {
		if len(m.series) > 0 {
			b = m.append(b)
		}
	}
	return b
}

// Answer is Text for Handler.
func (s *Set) Answer(*http.Request) ([]byte, error) { return s.Text(), nil }

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func (m *Metric) append(b []byte) []byte {
	b = append(b, "# HELP "+m.name+" "+escapeHelp.Replace(valid(m.help))+"\n# TYPE "+m.name+" "+m.kind+"\n"...)
	byValues := func(x, y *series) int { return slices.Compare(x.values, y.values) }
	for _, s := range slices.SortedFunc(maps.Values(m.series), byValues) {
		if m.kind != "histogram" {
			b = m.sample(b, "", s, "", s.value)
			continue
		}
		count := uint64(0)
		for i, n := range s.buckets {
			bound := math.Inf(1)
			if i < len(m.bounds) {
				bound = m.bounds[i]
			}
			count += n
			b = m.sample(b, "_bucket", s, number(bound), float64(count))
		}
		b = m.sample(b, "_sum", s, "", s.value)
		b = m.sample(b, "_count", s, "", float64(count))
	}
	return b
}

// sample appends one line. Le is the label of a bucket, "" for none.
func (m *Metric) sample(b []byte, suffix string, s *series, le string, value float64) []byte {
	b = append(b, m.name+suffix...)
	open := byte('{')
	pair := func(label, value string) {
		b = append(b, open)
		b = append(b, label+`="`+escapeValue.Replace(valid(value))+`"`...)
		open = ','
	}
	for i, label := range m.labels {
		pair(label, s.values[i])
	}
	if le != "" {
		pair("le", le)
	}
	if open == ',' {
		b = append(b, '}')
	}
	return append(b, " "+number(value)+"\n"...)
}

// number is a value as the format has it.
func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf" // FormatFloat has the same, -Inf and NaN
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// valid is s in UTF-8, which the format demands: Prometheus would refuse all of it otherwise.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
