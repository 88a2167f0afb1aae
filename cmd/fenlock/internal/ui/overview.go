package ui

import (
	"fmt"
	"time"
)

// overview is the page of all locks.
type overview struct {
	Now    time.Time
	Status status
	Nodes  []nodeRow
	Locks  []lockRow
	Query  query
	Orders []orderLink
	Chart  *chart // nil if no history is kept
	Pager  pager
	Break  bool // locks can be broken here
}

// pager is what is said below the locks, or instead of them.
type pager struct {
	Text string
	Prev string
	Next string
	None string // why there is no lock
	Hint bool   // that nothing was locked yet, perhaps
}

func newOverview(p *picture, q query, mayBreak bool) overview {
	now := time.Now()
	chosen, all := q.choose(p.entries)
	v := overview{Now: now, Status: statusOf(p), Nodes: nodeRows(p, now), Query: q, Orders: q.orders(), Chart: p.chart,
		Break: mayBreak}
	for _, e := range chosen {
		v.Locks = append(v.Locks, lockRowOf(e, now, false, mayBreak))
	}
	v.Pager = pagerOf(p, q, all)
	return v
}

func pagerOf(p *picture, q query, all int) pager {
	var g pager
	switch {
	case all == 0 && !q.all() && len(p.locks) > 0:
		g.None = fmt.Sprintf("None of %s is like that.", plural(len(p.entries), "lock", "locks"))
	case all == 0 && p.err != nil:
		g.None = "No lock could be seen."
	case all == 0:
		g.None, g.Hint = "Nothing is locked.", true
	case q.pages(all) > 1:
		g.Text = fmt.Sprintf("Page %d of %d, %s", q.Page, q.pages(all), plural(all, "lock", "locks"))
	case all > 1:
		g.Text = plural(all, "lock", "locks")
	}
	if q.Page > 1 {
		g.Prev = q.at("./", q.Page-1)
	}
	if q.Page < q.pages(all) {
		g.Next = q.at("./", q.Page+1)
	}
	if p.bound != "" {
		g.Text += fmt.Sprintf(". There are more: only the first %s are looked at. fenlock ui PREFIX shows others",
			thousands(len(p.locks)))
	}
	return g
}

// screen returns the pieces of the page.
func (v overview) screen() screen {
	s := screen{
		at: v.Now, title: v.Title(), until: map[string]until{}, texts: map[string]string{},
		parts: []part{{"status", "status", v.Status}, {"pager", "pager", v.Pager}},
	}
	if v.Chart != nil {
		s.parts = append(s.parts, part{"chart", "chart", v.Chart})
	}
	nodes, locks := list{id: "nodes"}, list{id: "locks"}
	for _, n := range v.Nodes {
		nodes.items = append(nodes.items, part{n.ID, "node", n})
		s.texts["trip-"+n.ID] = n.Trip
		if n.WaitID != "" {
			s.until[n.WaitID] = n.Until
		}
	}
	for _, l := range v.Locks {
		locks.items = append(locks.items, part{l.ID, "row", l})
		if l.Until.At != 0 {
			s.until["left-"+l.ID] = l.Until
		}
	}
	s.lists = []list{nodes, locks}
	return s
}

// Title is what the window is called.
func (v overview) Title() string { return windowTitle(v.Status, "") }

func windowTitle(s status, lock string) string {
	title := "fenlock"
	if lock != "" {
		title = lock + " – " + title
	}
	if s.Short != "" {
		title = s.Short + " – " + title
	}
	return title
}
