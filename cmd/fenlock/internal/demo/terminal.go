//go:build linux || darwin || freebsd

package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Terminal shows events as lines of at most 80 columns: when, who, and what. The zero
// value is not usable; give it an Out.
type Terminal struct {
	Out    io.Writer
	Colour bool
	Err    error // of the first write that failed

	scenes int
}

const (
	columns    = 80
	textColumn = 21 // behind the time and the actor
)

// Show prints an event.
func (t *Terminal) Show(e Event) {
	if e.Text == "" {
		return
	}
	switch e.What {
	case Begin:
		t.scenes++
		title := fmt.Sprintf("== %s: %s ", e.Scene, e.Text)
		if t.scenes > 1 {
			t.print("\n")
		}
		t.print("%s\n", t.colour(bold, title+strings.Repeat("=", max(0, columns-len(title)))))
	case Tell:
		t.print("\n")
		t.paragraph("", e.Text)
		t.print("\n")
	case Shown:
		t.print("\n")
		t.paragraph("Shown:   ", e.Text)
	case Promise:
		t.paragraph("Promise: ", e.Text)
	case Failed:
		t.print("\n")
		t.paragraph("FAILED:  ", e.Text)
	case Lacks:
		t.print("\n")
		t.paragraph("", e.Text)
	default:
		t.line(e)
	}
}

// line prints what somebody did.
func (t *Terminal) line(e Event) {
	for i, text := range wrap(e.Text, columns-textColumn) {
		head := strings.Repeat(" ", textColumn)
		if i == 0 {
			head = fmt.Sprintf("%7.2f s  %s%*s", e.At.Seconds(), t.colour(actorColour(e.Actor), e.Actor), textColumn-11-len(e.Actor), "")
		}
		t.print("%s%s\n", head, t.colour(whatColour[e.What], text))
	}
}

// paragraph prints what the narrator says, with its lines indented below the head.
func (t *Terminal) paragraph(head, text string) {
	for i, line := range wrap(text, columns-2-len(head)) {
		if i > 0 {
			head = strings.Repeat(" ", len(head))
		}
		t.print("  %s%s\n", t.colour(bold, head), line)
	}
}

func (t *Terminal) print(format string, args ...any) {
	if t.Err == nil {
		_, t.Err = fmt.Fprintf(t.Out, format, args...)
	}
}

// colour is a parameter of the terminal's SGR sequence, or none.
type colour string

const (
	bold    colour = "1"
	dim     colour = "2"
	red     colour = "1;31"
	green   colour = "32"
	yellow  colour = "33"
	blue    colour = "34"
	magenta colour = "35"
	cyan    colour = "36"
)

// whatColour has the kinds of events that are to be seen at a glance.
var whatColour = map[What]colour{
	Harm: red, Lost: yellow, Refused: yellow, Killed: yellow, Stopped: yellow,
	Holds: green, Extends: green, Stale: green, Checked: bold,
}

// actorColour is the same for one actor in all scenes.
func actorColour(actor string) colour {
	switch {
	case actor == "demo":
		return dim
	case actor == "account":
		return yellow
	case actor == "client 1", actor == "client A":
		return cyan
	case actor == "client 2", actor == "client B":
		return magenta
	case strings.HasPrefix(actor, "client"):
		return blue
	}
	return ""
}

func (t *Terminal) colour(c colour, text string) string {
	if !t.Colour || c == "" || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// wrap breaks a text into lines of at most so many columns, unless a word is longer.
// Control characters, which could come from a server's error, are left out.
func wrap(text string, width int) (lines []string) {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
