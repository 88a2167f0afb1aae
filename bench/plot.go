package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// panel is a drawing of lines over numbers that were chosen, such as 1, 16, 64.
type panel struct {
	title, across, up string
	logarithmic       bool // across; up begins at 0
	series            []series
}

type series struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

// Sizes of a panel in pixels. The names of the lines stand on its right.
const (
	panelWidth, panelHeight = 640, 400

	marginLeft, marginRight, marginTop, marginBottom = 80, 150, 48, 56
)

// styles are colours with a contrast of at least 4.5 to white, which readers that see no red or
// green tell apart. They have marks for readers that see no colour at all.
var styles = []struct{ colour, mark string }{
	{"#00539c", "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z"}, // a circle
	{"#b3400a", "M-4.5 -4.5h9v9h-9z"},                            // a square
	{"#8a2a6b", "M0 -4.5l4.5 9h-9z"},                             // a triangle
	{"#1b6e4b", "M0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z"},           // a diamond
	{"#555555", "M-4.5 -4.5l9 9m0 -9l-9 9"},                      // a cross
}

// drawPlot draws panels side by side, with some text below, a line for each part
// of it that ends with a semicolon.
func drawPlot(panels []*panel, below string) string {
	var b strings.Builder
	lines := strings.Split(below, "; ")
	width, height := panelWidth*len(panels), panelHeight+14*len(lines)+10
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="13" fill="#222222">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	// A name has one style in all panels.
	var names []string
	for _, p := range panels {
		for _, s := range p.series {
			if !slices.Contains(names, s.name) {
				names = append(names, s.name)
			}
		}
	}
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%d 0)">`+"\n", i*panelWidth)
		p.draw(&b, names)
		b.WriteString("</g>\n")
	}
	for i, line := range lines {
		text(&b, marginLeft, float64(panelHeight+10+14*i), "start", `font-size="11" fill="#555555"`, line)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func text(b *strings.Builder, x, y float64, anchor, more, words string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, more,
		html.EscapeString(words))
}

// extent returns the chosen numbers, ascending, and the largest value.
func (p *panel) extent() (xs []float64, most float64) {
	for _, s := range p.series {
		for _, q := range s.points {
			xs, most = append(xs, q.x), max(most, q.y)
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs), most
}

func (p *panel) draw(b *strings.Builder, names []string) {
	xs, most := p.extent()
	if len(xs) == 0 {
		return
	}
	const left, right, top, bottom = marginLeft, panelWidth - marginRight, marginTop, panelHeight - marginBottom
	scale := func(x float64) float64 { return x }
	if p.logarithmic {
		scale = math.Log
	}
	least, span := scale(xs[0]), scale(xs[len(xs)-1])-scale(xs[0])
	across := func(x float64) float64 {
		if span == 0 {
			return (left + right) / 2
		}
		return left + (scale(x)-least)/span*(right-left)
	}
	ticks := niceTicks(most)
	up := func(y float64) float64 { return bottom - y/ticks[len(ticks)-1]*(bottom-top) }

	text(b, (left+right)/2, top-24, "middle", `font-size="15" font-weight="bold"`, p.title)
	for _, y := range ticks {
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>`+"\n", left, up(y), right, up(y))
		text(b, left-8, up(y)+4, "end", "", thousands(y))
	}
	for _, x := range xs {
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#222222"/>`+"\n", across(x), bottom, across(x),
			bottom+5)
		text(b, across(x), bottom+20, "middle", "", fmt.Sprint(x))
	}
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#222222"/>`+"\n", left, bottom, right, bottom)
	text(b, (left+right)/2, bottom+42, "middle", "", p.across)
	text(b, 0, 0, "middle", fmt.Sprintf(`transform="translate(20 %d) rotate(-90)"`, (top+bottom)/2), p.up)

	labels := p.labels(up, bottom)
	draw := func(style struct{ colour, mark string }, x, y float64) {
		fmt.Fprintf(b, `<path transform="translate(%.1f %.1f)" d="%s" fill="%s" stroke="%[4]s"/>`+"\n",
			x, y, style.mark, style.colour)
	}
	for i, s := range p.series {
		style := styles[slices.Index(names, s.name)%len(styles)]
		var line []string
		for _, q := range s.points {
			line = append(line, fmt.Sprintf("%.1f,%.1f", across(q.x), up(q.y)))
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(line, " "),
			style.colour)
		for _, q := range s.points {
			draw(style, across(q.x), up(q.y))
		}
		draw(style, right+16, labels[i])
		text(b, right+26, labels[i]+4, "start", fmt.Sprintf(`fill="%s"`, style.colour), s.name)
	}
}

// labels returns where the names of the lines stand: at their ends, but as far
// apart as lines of text.
func (p *panel) labels(up func(float64) float64, bottom float64) []float64 {
	const apart = 17
	at, order := make([]float64, len(p.series)), make([]int, len(p.series))
	for i, s := range p.series {
		order[i] = i
		if len(s.points) > 0 {
			at[i] = up(s.points[len(s.points)-1].y)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(at[i], at[j]) })
	for k := 1; k < len(order); k++ {
		at[order[k]] = max(at[order[k]], at[order[k-1]]+apart)
	}
	// What went beyond the bottom goes up again, and the others with it.
	limit := bottom
	for k := len(order) - 1; k >= 0; k-- {
		at[order[k]] = min(at[order[k]], limit)
		limit = at[order[k]] - apart
	}
	return at
}

// niceTicks returns 0 and multiples of 1, 2 or 5 times a power of ten. They are at most 7, the last
// one not below most.
func niceTicks(most float64) []float64 {
	if !(most > 0) {
		return []float64{0, 1}
	}
	step := math.Pow(10, math.Floor(math.Log10(most))-1)
	for _, factor := range []float64{1, 2, 5, 10, 20, 50} {
		if n := math.Ceil(most/(step*factor) - 1e-9); n <= 6 {
			ticks := make([]float64, int(n)+1)
			for i := range ticks {
				ticks[i] = step * factor * float64(i)
			}
			return ticks
		}
	}
	return []float64{0, most} // not reached: most is less than 100 steps
}

// thousands writes a number with spaces between its groups.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	if v < 10 && v != math.Trunc(v) {
		return fmt.Sprintf("%g", math.Round(v*100)/100)
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
