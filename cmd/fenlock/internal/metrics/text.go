package metrics

import (
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
	for _, f := range s.families {
		if len(f.series) > 0 {
			b = f.append(b)
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

func (f *family) append(b []byte) []byte {
	b = append(b, "# HELP "+f.name+" "+escapeHelp.Replace(valid(f.help))+"\n# TYPE "+f.name+" "+f.kind+"\n"...)
	all := make([]*series, 0, len(f.series))
	for _, s := range f.series {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y *series) int { return slices.Compare(x.values, y.values) })
	for _, s := range all {
		if f.kind != "histogram" {
			b = f.sample(b, "", s, "", s.value)
			continue
		}
		count := uint64(0)
		for i, n := range s.buckets {
			bound := math.Inf(1)
			if i < len(f.bounds) {
				bound = f.bounds[i]
			}
			count += n
			b = f.sample(b, "_bucket", s, number(bound), float64(count))
		}
		b = f.sample(b, "_sum", s, "", s.value)
		b = f.sample(b, "_count", s, "", float64(count))
	}
	return b
}

// sample appends one line. Le is the label of a bucket, "" for none.
func (f *family) sample(b []byte, suffix string, s *series, le string, value float64) []byte {
	b = append(b, f.name+suffix...)
	open := byte('{')
	pair := func(label, value string) {
		b = append(b, open)
		b = append(b, label+`="`+escapeValue.Replace(valid(value))+`"`...)
		open = ','
	}
	for i, label := range f.labels {
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
