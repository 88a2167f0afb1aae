package ui

import (
	"errors"
	"fmt"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
)

// status is what a person has to know first.
type status struct {
	Class string // good, warn or bad
	Head  string
	Text  string
	Short string // in the title of the window
}

func statusOf(p *picture) status {
	mute, all := p.mute(), len(p.nodes)
	silent := errors.Is(p.err, fenlock.ErrNoQuorum)
	switch {
	case !p.works():
		s := status{Class: "bad", Head: working(mute, all), Text: "No lock can be taken or extended.", Short: "no majority"}
		if silent {
			s.Text = "No lock can be taken or extended, and the holders are not known."
		}
		if all == 1 {
			s.Short = "the node does not vote"
		}
		return s
	case p.err != nil:
		s := status{Class: "warn", Head: "The list is not whole.", Text: sentence(p.err), Short: "list not whole"}
		if silent {
			s.Class = "bad"
		}
		return s
	case mute > 0:
		s := status{Class: "warn", Head: working(mute, all), Short: fmt.Sprintf("%d of %d nodes do not vote", mute, all)}
		if mute == 1 {
			s.Short = fmt.Sprintf("1 of %d nodes does not vote", all)
		}
		switch more := p.spare() - mute; more {
		case 0:
			s.Text = "Locks still work. If one more goes, none can be taken or extended."
		default:
			s.Text = fmt.Sprintf("Locks still work, and would with %d fewer.", more)
		}
		s.Text += " " + counted(p)
		return s
	}
	s := status{Class: "good", Head: fmt.Sprintf("All %d nodes answer.", all), Text: counted(p)}
	if all == 1 {
		s.Head = "The node answers."
	}
	return s
}

// mute is how many nodes do not vote.
func (p *picture) mute() (n int) {
	for _, one := range p.nodes {
		if !one.Usable() {
			n++
		}
	}
	return n
}

// spare is how many nodes need not vote.
func (p *picture) spare() int { return (len(p.nodes) - 1) / 2 }

// works reports whether locks can be taken and extended.
func (p *picture) works() bool { return p.mute() <= p.spare() }

func working(mute, all int) string {
	switch {
	case all == 1:
		return "The node does not vote."
	case mute == all:
		return fmt.Sprintf("None of %d nodes votes.", all)
	case mute == 1:
		return fmt.Sprintf("1 of %d nodes does not vote.", all)
	}
	return fmt.Sprintf("%d of %d nodes do not vote.", mute, all)
}

// counted says how many locks are held, and how many clients wait.
func counted(p *picture) string {
	held, waiting, late := 0, p.waiting(), 0
	for _, e := range p.entries {
		if e.State == admin.Held {
			held++
		}
		if e.late() {
			late++
		}
	}
	text := "Nothing is locked."
	if held > 0 {
		text = plural(held, "lock is held", "locks are held")
		if p.bound != "" {
			text = "More than " + text
		}
		switch waiting {
		case 0:
			text += ", no waiters."
		case 1:
			text += ", and 1 waits."
		default:
			text += ", and " + thousands(waiting) + " wait."
		}
	} else if waiting > 0 {
		text = "Nothing is held, and " + thousands(waiting) + " wait."
	}
	switch late {
	case 0:
		return text
	case 1:
		return text + " 1 is not being extended."
	}
	return text + fmt.Sprintf(" %s are not being extended.", thousands(late))
}

func sentence(err error) string { return reason("", err) + "." }
