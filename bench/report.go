package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// table is a figure as it is printed.
type table struct {
	title, method string
	header        []string
	rows          [][]string
	notes         []string
	panel         *panel // the same as a drawing, for figures that have one
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n  %s\n\n", t.title, t.method)
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{t.header}, t.rows...) {
		fmt.Fprintln(columns, "    "+strings.Join(row, "\t"))
	}
	columns.Flush()
	io.WriteString(w, text.String())
	if len(t.notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range t.notes {
		fmt.Fprintf(w, "  %s\n", n)
	}
}

func micros(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return millis(d)
	}
	return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// ratio returns a ÷ b as text, "-" if one of them was not measured.
func ratio[T time.Duration | float64](a, b T) string {
	if a == 0 || b == 0 {
		return "-"
	}
	r := float64(a) / float64(b)
	if r >= 100 {
		return fmt.Sprintf("%.0f×", r)
	}
	return fmt.Sprintf("%.2f×", r)
}
