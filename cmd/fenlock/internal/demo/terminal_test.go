//go:build linux || darwin || freebsd

package demo

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTerminal(t *testing.T) {
	events := []Event{
		{Scene: "paused", What: Begin, Text: "a title"},
		{What: Tell, Text: "the narrator"},
		{At: 1234 * time.Millisecond, Actor: "client 1", What: Holds,
			Text: "has the lock\x1b[2J\nand " + strings.Repeat("more ", 12)},
		{At: 2 * time.Minute, Actor: "account", What: Harm, Text: "100 -> 70"},
		{What: Shown, Text: "this"},
		{What: Promise, Text: "that"},
		{Scene: "outage", What: Begin, Text: "another"},
		{What: Command, Text: "look"},
		{What: Failed, Text: "otherwise"},
	}
	const want = `== paused: a title =============================================================

  the narrator

   1.23 s  client 1  has the lock [2J and more more more more more more more
                     more more more more more
 120.00 s  account   100 -> 70

  Shown:   this
  Promise: that

== outage: another =============================================================

  Look on while it plays, in another terminal:

    look

  FAILED:  otherwise
`
	var out bytes.Buffer
	plain := Terminal{Out: &out}
	for _, e := range events {
		plain.Show(e)
	}
	if out.String() != want {
		t.Errorf("it shows\n%s\nwant\n%s", &out, want)
	}

	out.Reset()
	coloured := Terminal{Out: &out, Colour: true}
	coloured.Show(events[3])
	if got := out.String(); got != " 120.00 s  \x1b[2maccount\x1b[0m   \x1b[1;31m100 -> 70\x1b[0m\n" {
		t.Errorf("in colour: %q", got)
	}
}

// Where there is no reader any more, it says so once, and goes on.
func TestTerminalIsGone(t *testing.T) {
	screen := Terminal{Out: gone{}}
	screen.Show(Event{What: Tell, Text: "x"})
	screen.Show(Event{What: Tell, Text: "y"})
	if !errors.Is(screen.Err, errGone) {
		t.Error(screen.Err)
	}
}

var errGone = errors.New("nobody reads")

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errGone }
