//go:build linux || darwin || freebsd

package command

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
	"github.com/fenlock/fenlock/node"
)

// text shows nodes to people.
func (v groupView) text() string {
	var b strings.Builder
	b.WriteString(v.table())
	first := true
	for _, n := range v.nodes {
		if n.Why == "" {
			continue
		}
		if first {
			b.WriteString("\n")
			first = false
		}
		fmt.Fprintf(&b, "%s %s: %s\n", clean(n.Node), n.notVoting(), clean(n.Why))
	}
	fmt.Fprintf(&b, "\n%s\n", v.summary())
	return b.String()
}

// notVoting says in words what the state does in one.
func (n nodeView) notVoting() string {
	switch n.State {
	case doctor.Ready:
		return "votes from the next request on"
	case doctor.Out:
		if n.Wait > 0 {
			return "does not vote for another " + doctor.Seconds(n.Wait)
		}
		return "does not vote"
	case doctor.Down:
		return "is down"
	}
	return "is misconfigured"
}

// summary says whether locks can be taken.
func (v groupView) summary() string {
	what := "locks can be taken"
	if v.usable < v.need {
		what = "NO LOCK CAN BE TAKEN"
	}
	if len(v.nodes) == 1 {
		return strings.ToUpper(what[:1]) + what[1:] + "."
	}
	votes := "vote"
	if v.usable == 1 {
		votes = "votes"
	}
	return fmt.Sprintf("%d of %d %s, %d needed: %s.", v.usable, len(v.nodes), votes, v.need, what)
}

// table has a line for each node.
func (v groupView) table() string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tROUND TRIP\tVERSION\tROLE\tGROUP OF\tUP")
	for _, n := range v.nodes {
		e := n.Examination
		state := string(n.State)
		if n.Wait > 0 {
			state += " " + doctor.Seconds(n.Wait)
		}
		up := ""
		if e.Uptime > 0 {
			up = ago(e.Uptime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(n.Node), state, orDash(milliseconds(e.RoundTrip)),
			orDash(printable(strings.TrimSpace(e.Product+" "+e.Version))), orDash(printable(e.Role)),
			number(len(e.Members)), orDash(up))
	}
	w.Flush()
	return b.String()
}

func milliseconds(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case d == 0:
		return ""
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	default:
		return fmt.Sprintf("%.0f ms", ms)
	}
}

// findings shows what was found to people.
func (v groupView) findings(found []doctor.Finding) string {
	var b strings.Builder
	b.WriteString(v.table())
	counts := map[node.Severity]int{}
	for _, f := range found {
		counts[f.Severity]++
		where := "the group"
		switch {
		case len(f.Nodes) == 1:
			where = f.Nodes[0]
		case len(f.Nodes) == len(v.nodes):
			where = "all nodes"
		case len(f.Nodes) > 1:
			where = strings.Join(f.Nodes, ", ")
		}
		fmt.Fprintf(&b, "\n%s", wrap(fmt.Sprintf("%s [%s] %s", strings.ToUpper(f.Severity.String()), f.Check, clean(where)),
			"", "  "))
		b.WriteString(wrap(clean(f.Reason), "  ", "  "))
		if f.Advice != "" {
			b.WriteString(wrap(clean(f.Advice), "  -> ", "     "))
		}
	}
	summary := v.summary()
	if slices.ContainsFunc(found, func(f doctor.Finding) bool {
		return f.Check == "disk-space" &&
			f.Severity == node.Error
	}) {
		summary = "Some names can be locked, and others not: the disk is full."
	}
	fmt.Fprintf(&b, "\n%s\n%s, %s, %s.\n", summary, counted(counts[node.Error], "error"),
		counted(counts[node.Warning], "warning"), counted(counts[node.Note], "note"))
	return b.String()
}

// clean is a sentence that servers may have a part in, as it can be printed.
func clean(text string) string { return printable(plain(text)) }

func counted(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// textWidth is for a terminal of usual width.
const textWidth = 98

// wrap breaks a text into lines, the first of which begins in its own way.
func wrap(text, first, next string) string {
	var b strings.Builder
	line := first
	begun := false
	for _, word := range strings.Fields(text) {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > textWidth {
			b.WriteString(line + "\n")
			line, begun = next, false
		}
		if begun {
			line += " "
		}
		line, begun = line+word, true
	}
	return b.String() + line + "\n"
}

// groupView is a group as it is shown.
type groupView struct {
	at     time.Time
	nodes  []nodeView
	need   int // a quorum
	usable int // that answer for a lock
}

// nodeView is a node of it.
type nodeView struct {
	admin.NodeInfo
	doctor.Standing
}

func view(g doctor.Group) groupView {
	v := groupView{at: time.Now(), need: node.Quorum(len(g.Nodes))}
	for i, s := range g.Standings() {
		v.nodes = append(v.nodes, nodeView{g.Nodes[i], s})
		if s.Usable() {
			v.usable++
		}
	}
	return v
}
