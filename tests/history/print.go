package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// most is how many violations of a kind are printed.
const most = 20

// String is the report for a person. It has what was checked, counts, how often each fault struck,
// what was excused and by what, and what is wrong.
func (r Report) String() string {
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	list := func(title string, n int, item func(i int) string) {
		line("  %s: %d", title, n)
		for i := range min(n, most) {
			line("    %s", item(i))
		}
		if n > most {
			line("    and %d more", n-most)
		}
	}
	h := r.Header
	line("%s, seed %d, %d nodes of %s (persistence %s), %d clients, names %s, TTL %v, %v long",
		h.Library, h.Seed, h.Nodes, h.Server, h.Persistence, h.Clients, strings.Join(h.Names, " "), h.TTL,
		time.Duration(r.End-r.Begin).Round(time.Millisecond))
	if h.Command != "" {
		line("  run again: %s", h.Command)
	}
	line("  checked: %s", strings.Join(r.Checked, ", "))
	line("  %d client processes; acquisitions: %d done, %d failed, %d unknown; %d extensions",
		r.Clients, r.Acquired, r.Failed, r.Unknown, r.Extended)
	if r.Shared+r.Downgraded > 0 {
		line("  shared: %d acquisitions, %d pairs at the same time, %d holders let others in", r.Shared, r.Beside,
			r.Downgraded)
	}
	if h.Locks == "lead" {
		line("  followers saw %d changes of the leader", r.Followed)
	}
	if h.Watched {
		line("  locks: %d were held on while a node failed their client, %d were lost", r.Stood, r.Gone)
	}
	line("  resource: %d writes, %d refused; porcupine put %d operations into an order", r.Writes, r.Refused, r.Operations)
	if len(r.Faults) > 0 {
		line("  faults (strikes, of these while a lock was held):")
		for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
			line("    %-24s %5d %5d", kind, r.Faults[kind].All, r.Faults[kind].Held)
		}
	}
	if len(r.Assumptions) > 0 {
		line("  assumptions broken on purpose: %s", strings.Join(r.Assumptions, "; "))
	}
	if !h.Tokens() {
		list("overlaps", len(r.Overlaps), func(i int) string { return r.Overlaps[i].String() })
		list("lost updates", len(r.Lost), func(i int) string { return r.Lost[i].String() })
	}
	list("excused", len(r.Excused), func(i int) string { return r.Excused[i].String() })
	list("VIOLATIONS", len(r.Violations), func(i int) string { return r.Violations[i].String() })
	return text.String()
}

func (v Violation) String() string {
	if v.Assumption == "" {
		return fmt.Sprintf("%s: %s", v.Promise, v.Text)
	}
	return fmt.Sprintf("%s: %s [broken: %s]", v.Promise, v.Text, v.Assumption)
}

func (d Damage) String() string {
	return fmt.Sprintf("%s [faults: %s]", d.Text, cmp.Or(strings.Join(d.Faults, ", "), "none"))
}
