package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

// nodeRow shows one node.
type nodeRow struct {
	ID      string
	Number  int // as the votes of locks show it
	Name    string
	Address string
	Class   string // how it looks: good, warn or bad
	State   string
	Since   moment // if it does not vote
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
			ID: fmt.Sprintf("node-%d", i+1), Number: i + 1, Name: visible(n.Name), Address: address(n.Name),
			Class: "bad", State: strings.TrimPrefix(stateText(n.State), "is "), Why: short(n.Why, maxReason), Advice: visible(n.Advice),
			Note: visible(n.Note), Trip: roundTrip(n.RoundTrip),
		}
		if n.State == doctor.Out {
			row.Class = "warn"
		}
		if n.Wait > 0 {
			row.WaitID, row.Until = "wait-"+row.ID, untilOf(p.asked, n.Wait, 0)
			row.Wait = leftAt(row.Until, now)
		}
		if !n.Usable() {
			row.Since, row.Trip = momentOf(p.state[i], now), ""
		} else {
			row.Class = "good"
			if leases[i] < held {
				row.Leases = fmt.Sprintf("%s of %s", thousands(leases[i]), plural(held, "lock", "locks"))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// lockRow shows one lock.
type lockRow struct {
	ID      string
	Name    string
	URL     string // "" if it has no page of its own: its name is not one that fenlock takes
	State   string // held, free or unclear
	Tag     string // what is to be said of its state, "" for nothing
	Holder  string
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
	More    int    // who wait beside the Waiters
	Break   string // where it is broken, "" if it is not to be
	Breaks  bool   // others may be: there is a place for that
}

// voteRow is what one node says of a lock.
type voteRow struct {
	Number  int
	Address string
	Class   string // holds, no, other, kept or mute
	Title   string // in words, without the node
	Left    string `json:"-"`
	LeftID  string
	Until   until `json:"-"`
}

// waiterRow is one who waits.
type waiterRow struct {
	Label string
	Since moment
}

// fewWaiters is how many are shown of a queue among other locks.
const fewWaiters = 3

// lockRowOf shows a lock, with the first waiters of its queue.
func lockRowOf(l lock, now time.Time, waiters int, mayBreak bool) lockRow {
	row := lockRow{ID: lockID(l.Name), Name: short(l.Name, 200), State: l.State.String(), Waiting: l.Waiting, Breaks: mayBreak}
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
		if l.Token != 0 {
			row.Token = l.Token.String()
		}
	}
	switch {
	case l.State == admin.Held && l.Left == 0:
		row.Endless, row.Bound = true, l.Bound
	case l.State == admin.Held:
		row.Until = untilOf(l.at, l.Left, l.span)
		row.Left, row.Width = leftAt(row.Until, now), row.Until.width(now)
		row.Late = l.late()
	case l.State == admin.Unclear:
		row.Tag = "too few nodes answer and vote"
	case kept:
		row.Tag = "kept for the next in the queue"
	case leases > 0:
		row.Tag = "free: leases on too few nodes"
	}
	row.Count, row.Short = fmt.Sprintf("%d of %d", leases, len(l.Votes)), leases < len(l.Votes)
	row.Said = saidOf(row.Votes)
	for _, w := range l.waiters[:min(len(l.waiters), waiters)] {
		row.Waiters = append(row.Waiters, waiterRow{who(w.label), momentOf(w.since, now)})
	}
	row.More = max(l.Waiting-len(row.Waiters), 0)
	if fenlock.CheckName(l.Name) == nil {
		row.URL = lockPath(l.Name)
		if mayBreak && leases > 0 && l.State != admin.Unclear {
			row.Break = breakPath(l.Name)
		}
	}
	return row
}

// lockID is the id of a lock's element. Names can be anything; ids cannot.
func lockID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "lock-" + hex.EncodeToString(sum[:8])
}

func voteRowOf(number int, v admin.Vote, id string, at, now time.Time) voteRow {
	row := voteRow{Number: number, Address: address(v.Node), Class: "no", Title: "has no lease"}
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

// saidOf puts the votes in words, for who does not see them.
func saidOf(votes []voteRow) string {
	by := map[string][]string{}
	for _, v := range votes {
		by[v.Class] = append(by[v.Class], fmt.Sprint(v.Number))
	}
	var parts []string
	for _, c := range []struct{ class, text string }{
		{"holds", "leased on node"}, {"other", "leased to somebody else on node"}, {"kept", "kept for the next on node"}, {"no", "no lease on node"}, {"mute", "no answer of node"},
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
	URL     string
	Text    string
}

func trailRowOf(e event) trailRow {
	row := trailRow{Number: e.number, Kind: e.kind, Clock: e.at.Format(time.TimeOnly), ISO: e.at.Format(time.RFC3339), Exact: exact(e.at), Text: e.text}
	switch {
	case e.lock != "":
		row.Subject = short(e.lock, 200)
		if fenlock.CheckName(e.lock) == nil {
			row.URL = lockPath(e.lock)
		}
	case e.node != "":
		row.Subject = address(e.node)
	}
	return row
}
