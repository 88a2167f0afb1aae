package ui

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/admin"
)

// lockPage is the page of one lock.
type lockPage struct {
	Now    time.Time
	Name   string
	Copy   string // the name as it is
	Status status
	Lock   lockRow
	Facts  facts
	Break  bool
}

// facts is what the page of a lock says of it first.
type facts struct {
	Class string
	Head  string
	Of    string // the name that it is a slot of, if it is one
	OfURL string
	Row   lockRow
}

func newLockPage(p *picture, l lock, mayBreak bool) lockPage {
	now := time.Now()
	e := entry{lock: l}
	for _, listed := range p.entries {
		if listed.Name == l.Name {
			e.slots = listed.slots
		}
	}
	row := lockRowOf(e, now, true, mayBreak)
	v := lockPage{Now: now, Name: visible(l.Name), Copy: row.Copy, Status: statusOf(p), Lock: row, Break: mayBreak}
	v.Facts = facts{Class: row.State, Row: row}
	if name, number, is := slotName(l.Name); is {
		for _, listed := range p.entries {
			if listed.Name == name && number < listed.Slots {
				v.Facts.Of, v.Facts.OfURL = visible(name), lockPath(name)
			}
		}
	}
	switch {
	case l.State == admin.Held && l.Slots > 0:
		v.Facts.Head = row.Shared + " are held"
	case l.State == admin.Held && len(row.Shares) > 0:
		v.Facts.Head = "S" + row.Shared[1:]
	case l.State == admin.Held:
		v.Facts.Head = "Held by " + row.Holder
	case l.State == admin.Unclear:
		v.Facts.Head = "Too few nodes answer and vote: the holder is not known"
	case row.Holder != "":
		v.Facts.Head = fmt.Sprintf("Free: %s has leases on too few nodes. It tries to take it, or an attempt has left them",
			row.Holder)
	case row.Tag != "":
		v.Facts.Head = "Free, and " + row.Tag
	default:
		v.Facts.Head = "Free: it has no holder"
	}
	return v
}

// screen returns the pieces of the page.
func (v lockPage) screen() screen {
	s := screen{
		at: v.Now, title: v.Title(), until: map[string]until{}, texts: map[string]string{},
		parts: []part{{"status", "status", v.Status}, {"facts", "facts", v.Facts}, {"shares", "shares", v.Lock},
			{"queue", "queue", v.Lock}},
	}
	if v.Lock.Until.At != 0 {
		s.until["left-"+v.Lock.ID] = v.Lock.Until
	}
	votes := list{id: "votes"}
	for _, n := range v.Lock.Votes {
		votes.items = append(votes.items, part{fmt.Sprintf("vote-%d", n.Number), "vote", n})
		if n.LeftID != "" {
			s.until["left-"+n.LeftID] = n.Until
		}
	}
	s.lists = []list{votes}
	return s
}

// Title is what the window is called.
func (v lockPage) Title() string { return windowTitle(v.Status, v.Name) }
