package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// In pixels, as the drawing is wide.
const (
	laneWidth = 190
	top       = 46 // of the first step
	row       = 34 // of a step, for a text of one line
	textLine  = 16 // of each further line
	barWidth  = 12
)

// The colours follow the reader's theme, also where the drawing is an <img>. Texts have a
// rim, so that a bar behind them does not spoil them.
const style = `<style>
text{font:14px system-ui,sans-serif;fill:#1f2328;stroke:#fff;stroke-width:4px;paint-order:stroke}
.note text{stroke:none}
.lane{font-weight:600}.refused text,.lost text{fill:#b42318}
line,path{stroke:#57606a;fill:none}.refused path,.refused line,.lost path,.lost line{stroke:#b42318}
.life{stroke:#d0d7de}.heading{stroke:#d0d7de;stroke-dasharray:2 4}.lost line{stroke-dasharray:5 4}
.box{fill:#f6f8fa;stroke:#d0d7de}.holds{fill:#2da44e}.leased{fill:#54aeff}
.believes{fill:none;stroke:#bf8700;stroke-width:1.5}.paused{fill:none;stroke:#8c959f;stroke-dasharray:3 3}
.head text{font-weight:600}
@media (prefers-color-scheme:dark){text{fill:#e6edf3;stroke:#0d1117}line,path{stroke:#9198a1}
.refused text,.lost text{fill:#ff7b72}.refused path,.refused line,.lost path,.lost line{stroke:#ff7b72}
.life,.heading{stroke:#3d444d}.box{fill:#161b22;stroke:#3d444d}}
</style>
`

// svg draws the sequence. The same words give the same bytes.
func (s sequence) svg() []byte {
	var bars, body bytes.Buffer
	type bar struct {
		state string
		since int
	}
	open := make([]bar, len(s.lanes))
	end := func(lane, y int) {
		if b := open[lane]; b.state != "" && b.state != "ends" {
			fmt.Fprintf(&bars, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="3"/>`+"\n",
				b.state, x(lane)-barWidth/2, b.since, barWidth, y-b.since)
		}
	}
	y, noted := top, top // noted is where the last note begins
	for _, step := range s.steps {
		lines := strings.Split(step.text, " / ")
		height := row + (len(lines)-1)*textLine
		switch step.kind {
		case "message", "lost", "refused":
			y += height
			message(&body, step, lines, y)
		case "note":
			if step.beside {
				note(&body, x(step.from), noted, lines)
				y = max(y, noted+height-2)
				break
			}
			noted = y + 6
			note(&body, x(step.from), noted, lines)
			y = noted + height - 2
		case "heading":
			y += row + 8
			fmt.Fprintf(&body, `<g class="head"><line class="heading" x1="8" y1="%d" x2="%d" y2="%d"/>`, y, s.width()-8, y)
			texts(&body, s.width()/2, y-8, "middle", lines)
			body.WriteString("</g>\n")
			y += 6
		default:
			end(step.from, y)
			open[step.from] = bar{state: step.kind, since: y}
		}
	}
	y += 18
	for lane := range open {
		end(lane, y-8)
	}

	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n<title>%s</title>\n%s",
		s.width(), y, s.width(), y, html.EscapeString(s.title), style)
	for i, lane := range s.lanes {
		fmt.Fprintf(&out, `<line class="life" x1="%d" y1="34" x2="%d" y2="%d"/><g class="lane">`, x(i), x(i), y-4)
		texts(&out, x(i), 22, "middle", []string{lane})
		out.WriteString("</g>\n")
	}
	out.Write(bars.Bytes())
	out.Write(body.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

func (s sequence) width() int { return len(s.lanes) * laneWidth }

// x is the middle of a lane.
func x(lane int) int { return lane*laneWidth + laneWidth/2 }

// message draws an arrow at y, and its text above it.
func message(out *bytes.Buffer, step step, lines []string, y int) {
	from, to, direction := x(step.from), x(step.to), 1
	if to < from {
		direction = -1
	}
	from, to = from+direction*barWidth/2, to-direction*barWidth/2
	if step.kind == "lost" {
		to = (from + to) / 2
	}
	fmt.Fprintf(out, `<g class="%s"><line x1="%d" y1="%d" x2="%d" y2="%d"/>`, step.kind, from, y, to, y)
	if step.kind == "message" {
		fmt.Fprintf(out, `<path d="M%d %d l%d -5 m%d 5 l%d 5"/>`, to, y, -direction*8, direction*8, -direction*8)
	} else { // a cross where it ends
		fmt.Fprintf(out, `<path d="M%d %d l10 -10 m-10 0 l10 10" stroke-width="2"/>`, to-5, y+5)
	}
	texts(out, (x(step.from)+x(step.to))/2, y-6-(len(lines)-1)*textLine, "middle", lines)
	out.WriteString("</g>\n")
}

// note draws a box around what a lane has to say for itself.
func note(out *bytes.Buffer, middle, y int, lines []string) {
	fmt.Fprintf(out, `<g class="note"><rect class="box" x="%d" y="%d" width="%d" height="%d" rx="5"/>`,
		middle-laneWidth/2+4, y, laneWidth-8, 10+len(lines)*textLine)
	texts(out, middle, y+17, "middle", lines)
	out.WriteString("</g>\n")
}

func texts(out *bytes.Buffer, x, y int, anchor string, lines []string) {
	for i, line := range lines {
		fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="%s">%s</text>`, x, y+i*textLine, anchor, html.EscapeString(line))
	}
}
