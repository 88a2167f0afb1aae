//go:build linux || darwin || freebsd

package command

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
)

// printable is a text that others chose, as it can be printed. A client that may write to the nodes
// must not be able to write to the terminal.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r == '�' || !unicode.IsPrint(r) }) {
		quoted := fmt.Sprintf("%+q", text)
		return quoted[1 : len(quoted)-1]
	}
	return text
}

func orDash(text string) string { return cmp.Or(text, "-") }

// number is a count or a token, and a dash for none.
func number[N int | fenlock.Token](n N) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// heldBy is who has the lock, or has most of it.
func heldBy(l admin.LockInfo) string {
	leases := 0
	for _, v := range l.Votes {
		switch {
		case v.Holds:
			leases++
		case v.Reserved && l.State == admin.Free:
			return v.Label
		}
	}
	switch {
	case len(sharing(l)) > 1:
		return together(l)
	case l.Label != "":
		return l.Label
	case leases > 0:
		return orUnknown("")
	}
	return ""
}

// sharing are the holders that share the name, less those that only try to.
func sharing(l admin.LockInfo) (all []admin.Share) {
	for _, s := range l.Shares {
		if s.Nodes > len(l.Votes)/2 {
			all = append(all, s)
		}
	}
	return all
}

// fewShares is how many of those who share a name are listed on one line.
const fewShares = 3

// together names the first holders that share the name, and counts the others.
func together(l admin.LockInfo) string {
	all := sharing(l)
	var names []string
	for _, s := range all[:min(len(all), fewShares)] {
		names = append(names, orUnknown(s.Label))
	}
	switch more := len(all) - len(names); {
	case l.MoreShares:
		return strings.Join(names, ", ") + fmt.Sprintf(" and at least %d more", max(more, 1))
	case more > 0:
		return strings.Join(names, ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func orUnknown(label string) string { return cmp.Or(label, "(another program)") }

func since(begin, now time.Time) string {
	if begin.IsZero() {
		return "-"
	}
	return ago(now.Sub(begin))
}

func left(l admin.LockInfo) string {
	switch {
	case l.State != admin.Held:
		return "-"
	case l.Bound:
		return "process"
	case l.Left == 0:
		return "no end"
	}
	return l.Left.Round(100 * time.Millisecond).String()
}

func votes(l admin.LockInfo) string {
	n := 0
	for _, v := range l.Votes {
		if v.Holds {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(l.Votes))
}

// ago is a time that has passed, in two units at most.
func ago(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
