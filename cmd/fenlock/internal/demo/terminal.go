//go:build linux || darwin || freebsd

package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// Event is one thing that happened in a scene.
type Event struct {
	At    time.Duration // since the scene began
	Scene string        // its name
	// Actor did it: "client 1", "s3" (a server), "account", "demo". Empty where the narrator
	// speaks.
	Actor string
	What  What
	Text  string // for people
}

// What is the kind of an event.
type What string

// The kinds of events.
const (
	Begin   What = "begin"   // a scene begins; Text is its title
	Tell    What = "tell"    // the narrator explains
	Command What = "command" // that shows the servers, for another terminal
	Does    What = "does"    // anything that is none of the others
	Started What = "started" // servers
	Killed  What = "killed"  // servers
	Waits   What = "waits"   // a client, for the lock
	Holds   What = "holds"   // a client has the lock from now on
	Extends What = "extends" // a client has the lock for longer
	Refused What = "refused" // a client does not get the lock, or an extension of it
	Gives   What = "gives"   // a client has released the lock
	Lost    What = "lost"    // a client is told that it does not have the lock any more
	Stopped What = "stopped" // a process (SIGSTOP)
	GoesOn  What = "goes on" // a process (SIGCONT)
	Wrote   What = "wrote"   // the resource has a new value
	Stale   What = "stale"   // the resource has refused a write
	Harm    What = "harm"    // something that must not be
	Checked What = "checked" // the demo has made sure of what it says
	Shown   What = "shown"   // what the scene has shown; its last but one
	Promise What = "promise" // which promise of docs/promises.md it was about; its last
	Failed  What = "failed"  // it went another way than told; its last
)

// Terminal shows events as lines of at most 80 columns: when, who, and what. The zero
// value is not usable; give it an Out.
type Terminal struct {
	Out    io.Writer
	Colour bool
	Err    error // of the first write that failed

	begun, empty bool // a scene was shown; the last line is empty
}

const (
	columns    = 80
	textColumn = 21 // behind the time and the actor
)

// Show prints an event.
func (t *Terminal) Show(e Event) {
	switch e.What {
	case Begin:
		title := fmt.Sprintf("== %s: %s ", e.Scene, e.Text)
		if t.begun {
			t.space()
		}
		t.begun = true
		t.print("%s\n", t.colour(bold, title+strings.Repeat("=", max(0, columns-len(title)))))
	case Tell:
		t.space()
		t.paragraph("", e.Text)
		t.space()
	case Command: // in one line, to be copied
		t.space()
		t.print("  Look on while it plays, in another terminal:\n\n    %s\n", e.Text)
	case Shown:
		t.space()
		t.paragraph("Shown:   ", e.Text)
	case Promise:
		t.paragraph("Promise: ", e.Text)
	case Failed:
		t.space()
		t.paragraph("FAILED:  ", e.Text)
	default:
		t.line(e)
	}
}

// space prints an empty line, unless there is one.
func (t *Terminal) space() {
	if !t.empty {
		t.print("\n")
		t.empty = true
	}
}

// line prints what a client or a server did.
func (t *Terminal) line(e Event) {
	for i, text := range wrap(e.Text, columns-textColumn) {
		head := strings.Repeat(" ", textColumn)
		if i == 0 {
			head = fmt.Sprintf("%7.2f s  %s%*s", e.At.Seconds(), t.colour(dim, e.Actor), textColumn-11-len(e.Actor), "")
		}
		t.print("%s%s\n", head, t.colour(colours[e.What], text))
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
	if t.empty = false; t.Err == nil {
		_, t.Err = fmt.Fprintf(t.Out, format, args...)
	}
}

// The parameters of the terminal's SGR sequence.
const bold, dim, red, green, yellow = "1", "2", "1;31", "32", "33"

// colours has the kinds of events that are to be seen at a glance.
var colours = map[What]string{
	Harm: red, Lost: yellow, Refused: yellow, Killed: yellow, Stopped: yellow,
	Holds: green, Extends: green, Stale: green, Checked: bold,
}

func (t *Terminal) colour(c, text string) string {
	if !t.Colour || c == "" || text == "" {
		return text
	}
	return "\x1b[" + c + "m" + text + "\x1b[0m"
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
