package ui

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

// event is something that has happened, as the trail tells it.
type event struct {
	number uint64 // from 1 on, without gaps
	at     time.Time
	kind   kind
	lock   string // that it is about, or
	node   string
	text   string // what happened to it, or, where it is about neither, all there is to say
}

// kind is what an event looks like.
type kind string

const (
	taken   kind = "taken"
	moved   kind = "moved" // to another holder
	freed   kind = "freed"
	waits   kind = "waits"
	dropped kind = "left" // the queue
	down    kind = "down"
	up      kind = "up"
	broke   kind = "broke"
	noticed kind = "noticed" // about the page itself
)

// changes bounds what one picture adds to the trail: what is more is counted.
const mostChanges = 50

// changes tells what has happened between two pictures.
func changes(prev, next *picture) (all []event) {
	all = append(all, nodeChanges(prev, next)...)
	all = append(all, quorumChanges(prev, next)...)
	all = append(all, holderChanges(prev, next)...)
	all = append(all, queueChanges(prev, next)...)
	if more := len(all) - mostChanges; more > 0 {
		all = append(all[:mostChanges],
			event{kind: noticed, text: plural(more, "more change", "more changes") + " at the same moment"})
	}
	for i := range all {
		all[i].at = next.at
	}
	return all
}

func nodeChanges(prev, next *picture) (all []event) {
	for i, n := range next.nodes {
		if i >= len(prev.nodes) || prev.nodes[i].State == n.State || prev.nodes[i].Usable() && n.Usable() {
			continue
		}
		e := event{kind: up, node: n.Name, text: "votes again"}
		if !n.Usable() {
			e.kind, e.text = down, stateText(n.State)
			if n.Wait > 0 {
				e.text += " for another " + doctor.Seconds(n.Wait)
			}
			if n.Why != "" {
				e.text += ": " + short(n.Why, maxReason)
			}
		}
		all = append(all, e)
	}
	return all
}

func quorumChanges(prev, next *picture) []event {
	mute := func(p *picture) bool { return !p.works() || errors.Is(p.err, fenlock.ErrNoQuorum) }
	switch before, now := mute(prev), mute(next); {
	case now && !before:
		return []event{{kind: down, text: "So few nodes vote that no lock can be taken or extended."}}
	case before && !now:
		return []event{{kind: up, text: "A majority of the nodes votes again."}}
	}
	return nil
}

func holderChanges(prev, next *picture) (all []event) {
	for _, name := range slices.Sorted(maps.Keys(next.held)) {
		now, before := next.held[name], prev.held[name]
		switch _, was := prev.held[name]; {
		case now.slots > 0: // its slots are locks of their own, and tell it
		case !was && prev.beyond(name): // it was there perhaps
		case !was:
			all = append(all, event{kind: taken, lock: name, text: "taken by " + who(now.label) + withToken(now)})
		case !now.same(before):
			all = append(all, event{kind: moved, lock: name,
				text: fmt.Sprintf("went from %s to %s%s", who(before.label), who(now.label), withToken(now))})
		case len(now.shares)+len(before.shares) > 0:
			all = append(all, shareChanges(name, before, now)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(prev.held)) {
		h := prev.held[name]
		if _, is := next.held[name]; !is && !next.beyond(name) && h.slots == 0 {
			all = append(all, event{kind: freed, lock: name, text: "free; " + who(h.label) + " had it"})
		}
	}
	return all
}

// shareChanges tells which holders began or ceased to share a lock. Where not all holders are
// known, a holder that seems to be gone may be there.
func shareChanges(name string, before, now holding) (all []event) {
	for _, w := range now.holders() {
		if !has(before.holders(), w) && !before.more {
			all = append(all, event{kind: taken, lock: name, text: "shared by " + who(w.label) + ", too"})
		}
	}
	for _, w := range before.holders() {
		if !has(now.holders(), w) && !now.more {
			all = append(all, event{kind: freed, lock: name, text: who(w.label) + " shares it no more"})
		}
	}
	return all
}

// moves is how many locks went from one holder to another.
func moves(prev, next *picture) (n int) {
	for name, now := range next.held {
		if before, was := prev.held[name]; was && !now.same(before) && now.slots == 0 {
			n++
		}
	}
	return n
}

// beyond reports whether the list ends before a name.
func (p *picture) beyond(name string) bool { return p.bound != "" && name > p.bound }

func queueChanges(prev, next *picture) (all []event) {
	before := prev.byName()
	was := map[string]entry{}
	for _, e := range prev.entries {
		was[e.Name] = e
	}
	for _, e := range next.entries {
		waiters, whole := e.waiters()
		if waiters == nil && !whole {
			continue // the waiters are not known
		}
		old, found := was[e.Name]
		if !found {
			old = entry{lock: before[e.Name]}
		}
		gone, _ := old.waiters()
		for i, w := range waiters {
			rest, known := without(gone, w)
			switch {
			case known:
				gone = rest
			case w.since.After(prev.at.Add(-jitter)): // else it was only not seen before
				all = append(all, event{kind: waits, lock: e.Name,
					text: fmt.Sprintf("%s waits, %s in the queue", who(w.label), ordinal(i+1))})
			}
		}
		if !whole {
			continue // a missing waiter may only be far back
		}
		for _, w := range gone {
			if e.State == admin.Free || e.State == admin.Held && !e.holds(w.label) {
				all = append(all, event{kind: dropped, lock: e.Name, text: who(w.label) + " waits no more"})
			}
		}
	}
	return all
}

// A label, or the words for no label.
func who(label string) string {
	if strings.TrimSpace(label) == "" {
		return "another program"
	}
	return short(label, fenlock.MaxLabelLength)
}

func withToken(h holding) string {
	if h.token == 0 {
		return ""
	}
	return ", token " + h.token.String()
}
