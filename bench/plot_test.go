package main

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestPlot(t *testing.T) {
	panels := []*panel{
		{title: "5 nodes", across: "lockers", up: "cycles per second", logarithmic: true, series: []series{
			{"fenlock", []point{{1, 2500}, {16, 9000}, {64, 12000}, {256, 12500}}},
			{"<&>", []point{{1, 2400}, {16, 2500}, {64, 12400}, {256, 12450}}},
		}},
		{title: "64 lockers", across: "nodes", up: "cycles per second", series: []series{{"<&>", []point{{1, 10}, {7, 1}}}}},
		{title: "one point", series: []series{{"fenlock", []point{{5, 0}}}}},
		{title: "nothing"},
	}
	svg := drawPlot(panels, "a machine; two cores")
	// Well-formed, and every number that says where something is lies inside.
	decoder := xml.NewDecoder(strings.NewReader(svg))
	var texts, colours []string
	lines := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			if s := strings.TrimSpace(string(token)); s != "" {
				texts = append(texts, s)
			}
		case xml.StartElement:
			for _, a := range token.Attr {
				switch a.Name.Local {
				case "x", "y", "x1", "x2", "y1", "y2", "cx", "cy":
					if v, err := strconv.ParseFloat(a.Value, 64); err != nil || v < 0 || v > panelWidth {
						t.Errorf("%s %s=%q", token.Name.Local, a.Name.Local, a.Value)
					}
				case "stroke":
					if token.Name.Local == "polyline" {
						lines++
						colours = append(colours, a.Value)
					}
				}
			}
		}
	}
	for _, want := range []string{"5 nodes", "64 lockers", "lockers", "cycles per second", "fenlock", "<&>", "16", "256",
		"15 000", "a machine", "two cores"} {
		if !slices.Contains(texts, want) {
			t.Errorf("%q is not in the drawing: %q", want, texts)
		}
	}
	if lines != 4 || colours[1] != colours[2] || colours[0] == colours[1] || colours[0] != colours[3] {
		t.Errorf("%d lines, want 4; a name has one colour: %v", lines, colours)
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || strings.Contains(svg, "%!") {
		t.Errorf("badly formatted:\n%s", svg)
	}
}

// From 1 to 4 and from 4 to 16 it is equally far.
func TestPlotIsLogarithmic(t *testing.T) {
	p := &panel{logarithmic: true, series: []series{{"x", []point{{1, 0}, {4, 5}, {16, 10}}}}}
	svg := drawPlot([]*panel{p}, "")
	if want := `points="80.0,344.0 285.0,196.0 490.0,48.0"`; !strings.Contains(svg, want) {
		t.Errorf("no %s in:\n%s", want, svg)
	}
}

func TestLabelsStayApart(t *testing.T) {
	p := &panel{}
	for _, y := range []float64{300, 301, 299, 40, 302} { // in pixels, from the top
		p.series = append(p.series, series{points: []point{{1, y}}})
	}
	const bottom = 305
	at := p.labels(func(y float64) float64 { return y }, bottom)
	order := []int{3, 2, 0, 1, 4} // from the top, as the lines end
	for k, i := range order {
		if at[i] > bottom || k > 0 && at[i]-at[order[k-1]] < 17 {
			t.Errorf("labels at %v, want them 17 apart in the order %v, and none below %d", at, order, bottom)
		}
	}
	if at[3] != 40 {
		t.Errorf("the one that is in nobody's way was moved to %v", at[3])
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		most float64
		want []float64
	}{
		{0, []float64{0, 1}},
		{12500, []float64{0, 5000, 10000, 15000}},
		{6000, []float64{0, 1000, 2000, 3000, 4000, 5000, 6000}},
		{6001, []float64{0, 2000, 4000, 6000, 8000}},
		{1, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{99, []float64{0, 20, 40, 60, 80, 100}},
	} {
		got := niceTicks(test.most)
		same := len(got) == len(test.want)
		for i := range min(len(got), len(test.want)) {
			same = same && got[i]-test.want[i] < 1e-9 && test.want[i]-got[i] < 1e-9
		}
		if !same {
			t.Errorf("up to %v: %v, want %v", test.most, got, test.want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 999: "999", 1000: "1 000", 1234567: "1 234 567"} {
		if got := thousands(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}
