package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
	"github.com/fenlock/fenlock/fence"
)

// nodeRow shows one node.
type nodeRow struct {
	ID      string
	Number  int // as the votes of locks show it
	Name    string
	Address []string // where it may be broken into lines: after each part
	Class   string   // how it looks: good, warn or bad
	State   string
	Since   moment // if it does not vote
	Begun   string // when that was seen to begin
	Earlier string // how often it did not vote before
	Why     string
	Advice  string // what to do
	WaitID  string // of the time until it votes, "" if that is not known
	Wait    string `json:"-"`
	Until   until  `json:"-"`
	Note    string
	Trip    string `json:"-"`
	Leases  string // of how many of the locks that are held it has a lease, if not of all
}

func nodeRows(p *picture, now time.Time) (rows []nodeRow) {
	held, leases := 0, make([]int, len(p.nodes))
	for _, l := range p.locks {
		if l.State != admin.Held {
			continue
		}
		held++
		for i, v := range l.Votes {
			if i < len(leases) && v.Holds {
				leases[i]++
			}
		}
	}
	for i, n := range p.nodes {
		row := nodeRow{
			ID: fmt.Sprintf("node-%d", i+1), Number: i + 1, Name: visible(n.Name), Address: addressParts(n.Name),
			Class: "bad", State: strings.TrimPrefix(stateText(n.State), "is "), Why: short(n.Why, maxReason),
			Advice: visible(n.Advice),
			Note:   visible(n.Note), Trip: roundTrip(n.RoundTrip),
		}
		if n.State == doctor.Out {
			row.Class = "warn"
		}
		if n.Wait > 0 {
			row.WaitID, row.Until = "wait-"+row.ID, untilOf(p.asked, n.Wait, 0)
			row.Wait = leftAt(row.Until, now)
		}
		if !n.Usable() {
			row.Since, row.Begun, row.Trip = momentOf(p.state[i].from, now), begun(p.state[i]), ""
		} else {
			row.Class = "good"
			if leases[i] < held {
				row.Leases = fmt.Sprintf("%s of %s", thousands(leases[i]), plural(held, "lock", "locks"))
			}
		}
		if i < len(p.earlier) {
			row.Earlier = p.earlier[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// begun says since when a node does as it does, by what was seen.
func begun(s span) string {
	if s.seen {
		return "since " + s.from.Format(time.TimeOnly)
	}
	return "since " + s.from.Format(time.TimeOnly) + " or before"
}

// lockRow shows one lock.
type lockRow struct {
	ID      string
	Name    string
	Copy    string // the name as it is, to be copied
	URL     string // "" if it has no page of its own: its name is not one that fenlock takes
	State   string // held, free or unclear
	Tag     string // what is to be said of its state, "" for nothing
	Holder  string
	Shared  string // by how many, or how many slots are held; "" if one has it alone
	Shares  []shareRow
	Others  int  // holders that share it, beside the Shares
	AtLeast bool // there may be more
	Token   string
	Since   moment
	Left    string `json:"-"`
	Until   until  `json:"-"` // none if At is 0
	Width   int64  `json:"-"` // of its bar, in percent
	Endless bool
	Bound   bool
	Late    bool
	Votes   []voteRow
	Count   string // of the votes
	Short   bool   // not all nodes have voted for it
	Said    string // of the votes, in words
	Waiters []waiterRow
	Waiting int
	More    int    // waiters beside the Waiters
	Break   string // where it is broken, "" if it is not to be
	Breaks  bool   // others may be: there is a place for that
}

// voteRow is what one node says of a lock.
type voteRow struct {
	Number  int
	Address []string
	Class   string // holds, no, other, kept or mute
	Title   string // in words, without the node
	Left    string `json:"-"`
	LeftID  string
	Until   until `json:"-"`
}

// waiterRow is a waiter.
type waiterRow struct {
	Label string
	Since moment
}

// fewWaiters is how many are shown of a queue among other locks.
const fewWaiters = 3

// fewShares is how many are shown of those who share a lock, among other locks.
const fewShares = 3

// lockRowOf shows a lock: whole, or with the first of its queue and of those who share it.
func lockRowOf(e entry, now time.Time, whole, mayBreak bool) lockRow {
	l := e.lock
	row := lockRow{ID: lockID(l.Name), Name: short(l.Name, 200), State: l.State.String(), Breaks: mayBreak}
	leases, kept := 0, false
	for i, v := range l.Votes {
		if v.Holds {
			leases++
		}
		kept = kept || v.Reserved
		row.Votes = append(row.Votes, voteRowOf(i+1, v, fmt.Sprintf("%s-%d", row.ID, i+1), l.at, now))
	}
	if leases > 0 {
		row.Holder, row.Since = who(l.Label), momentOf(l.Since, now)
		row.Token = tokenOf(l.Token)
	}
	switch {
	case l.State == admin.Held && l.Left == 0:
		row.Endless, row.Bound = true, l.Bound
	case l.State == admin.Held:
		row.Until = untilOf(l.at, l.Left, l.span)
		row.Left, row.Width = leftAt(row.Until, now), row.Until.width(now)
	case l.State == admin.Unclear:
		row.Tag = "too few nodes answer and vote"
	case kept:
		row.Tag = "kept for the next in the queue"
	case leases > 0:
		row.Tag = "free: leases on too few nodes"
	}
	row.Count, row.Short = fmt.Sprintf("%d of %d", leases, len(l.Votes)), leases < len(l.Votes)
	row.Said = saidOf(row.Votes)
	row.Late = e.late()
	row.share(e, now)
	q := e.queue()
	waiters := q.waiters
	if !whole {
		waiters = waiters[:min(len(waiters), fewWaiters)]
		few := row.Shares[:min(len(row.Shares), fewShares)]
		row.Shares, row.Others = few, len(row.Shares)-len(few)
	}
	for _, w := range waiters {
		row.Waiters = append(row.Waiters, waiterRow{who(w.label), momentOf(w.since, now)})
	}
	row.Waiting = q.Waiting
	row.More = max(q.Waiting-len(row.Waiters), 0)
	if fenlock.CheckName(l.Name) == nil {
		row.URL, row.Copy = lockPath(l.Name), l.Name
		if mayBreak && leases > 0 && l.State != admin.Unclear && l.Slots == 0 {
			row.Break = breakPath(l.Name)
		}
	}
	return row
}

// shareRow is a holder that shares a lock, or has one of its slots.
type shareRow struct {
	Number string // of the slot, "" if there are none
	URL    string // of the slot
	Label  string
	Since  moment
	Token  string
	Late   bool
}

// share fills in the holders that share the lock or, if it has slots, that have them.
func (row *lockRow) share(e entry, now time.Time) {
	holders := e.holder().shares
	switch {
	case e.Slots > 0 && e.State == admin.Held:
		row.Shared = fmt.Sprintf("%d of %d slots", e.heldSlots(), e.Slots)
		for _, s := range e.slots {
			if s.State == admin.Held {
				row.Shares = append(row.Shares,
					shareRow{fmt.Sprintf("#%d", s.number), lockPath(s.Name), who(s.Label), momentOf(s.Since, now), tokenOf(s.Token),
						s.late()})
			}
		}
	case len(holders) > 1 || len(holders) == 1 && e.MoreShares:
		row.AtLeast = e.MoreShares
		row.Shared = "shared by " + thousands(len(holders))
		for _, s := range e.LockInfo.Shares {
			if s.Nodes > len(e.Votes)/2 {
				row.Shares = append(row.Shares,
					shareRow{Label: who(s.Label), Since: momentOf(s.Since, now), Token: tokenOf(s.Token)})
			}
		}
	case len(holders) == 1: // it can be shared, and is not
		row.Holder, row.Since, row.Token = who(holders[0].label), momentOf(holders[0].since,
			now), tokenOf(e.LockInfo.Shares[0].Token)
		row.Shared = "shared by 1"
	}
	if row.AtLeast {
		row.Shared = "shared by " + thousands(len(holders)) + " or more"
	}
}

func tokenOf(t fence.Token) string {
	if t == 0 {
		return ""
	}
	return t.String()
}

// lockID is the id of a lock's element. Names can be anything; ids cannot.
func lockID(name string) string { return "lock-" + digest([]byte(name)) }

func voteRowOf(number int, v admin.Vote, id string, at, now time.Time) voteRow {
	row := voteRow{Number: number, Address: addressParts(v.Node), Class: "no", Title: "has no lease"}
	switch {
	case v.Err != nil:
		row.Class, row.Title = "mute", "cannot be asked: "+reason(v.Node, v.Err)
		return row
	case v.Holds:
		row.Class, row.Title = "holds", "has the lease"
	case v.Reserved:
		row.Class, row.Title = "kept", "keeps it for the next in the queue, for a second"
		return row
	case v.Leased:
		row.Class, row.Title = "other", "has a lease of "+who(v.Label)
	case v.Out:
		row.Title = "has no lease, and does not vote: it may have forgotten one"
		return row
	default:
		return row
	}
	if v.Left > 0 {
		row.LeftID, row.Until = id, untilOf(at, v.Left, 0)
		row.Left = leftAt(row.Until, now)
	}
	return row
}

// saidOf puts the votes in words, for screen readers.
func saidOf(votes []voteRow) string {
	by := map[string][]string{}
	for _, v := range votes {
		by[v.Class] = append(by[v.Class], fmt.Sprint(v.Number))
	}
	var parts []string
	for _, c := range []struct{ class, text string }{
		{"holds", "leased on node"}, {"other", "leased to another client on node"}, {"kept", "kept for the next on node"},
		{"no", "no lease on node"}, {"mute", "no answer of node"},
	} {
		if n := by[c.class]; n != nil {
			parts = append(parts, c.text+" "+strings.Join(n, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

func untilOf(at time.Time, left, span time.Duration) until {
	return until{At: at.Add(left).UnixMilli(), Span: span.Milliseconds()}
}

func leftAt(u until, now time.Time) string {
	return left(time.Duration(u.At-now.UnixMilli()) * time.Millisecond)
}

// width is how much of the bar is left, in percent.
func (u until) width(now time.Time) int64 {
	return min(max(u.At-now.UnixMilli(), 0)*100/max(u.Span, 1), 100)
}

// trailRow shows an event.
type trailRow struct {
	Number  uint64
	Kind    kind
	Clock   string
	ISO     string
	Exact   string
	Subject string
	Whole   bool // it is an address, and no line ends in it
	URL     string
	Text    string
}

func trailRowOf(e event) trailRow {
	row := trailRow{Number: e.number, Kind: e.kind, Clock: e.at.Format(time.TimeOnly), ISO: e.at.Format(time.RFC3339),
		Exact: exact(e.at), Text: e.text}
	switch {
	case e.lock != "":
		row.Subject = short(e.lock, 200)
		if fenlock.CheckName(e.lock) == nil {
			row.URL = lockPath(e.lock)
		}
	case e.node != "":
		row.Subject = address(e.node)
		row.Whole = len(row.Subject) <= shortAddress
	}
	return row
}
