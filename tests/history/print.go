package history

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// most is how many violations of a kind Print prints.
const most = 20

// Print writes the report for a person: what was checked, counts, how often each
// fault struck, what was excused and by what, and what is wrong.
func (r Report) Print(w io.Writer) error {
	p := &printer{w: w}
	h := r.Header
	p.line("%s, seed %d, %d nodes of %s (persistence %s), %d clients, names %s, TTL %v, %v long",
		h.Library, h.Seed, h.Nodes, h.Server, h.Persistence, h.Clients, strings.Join(h.Names, " "), h.TTL, time.Duration(r.End-r.Begin).Round(time.Millisecond))
	if h.Command != "" {
		p.line("  run again: %s", h.Command)
	}
	p.line("  checked: %s", strings.Join(r.Checked, ", "))
	p.line("  %d client processes; acquisitions: %d done, %d failed, %d unknown; %d extensions", r.Clients, r.Acquired, r.Failed, r.Unknown, r.Extended)
	p.line("  resource: %d writes, %d refused; porcupine put %d operations into an order", r.Writes, r.Refused, r.Operations)
	if len(r.Faults) > 0 {
		p.line("  faults (strikes, of these while a lock was held):")
		for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
			p.line("    %-24s %5d %5d", kind, r.Faults[kind].All, r.Faults[kind].Held)
		}
	}
	if len(r.Assumptions) > 0 {
		p.line("  assumptions broken on purpose: %s", strings.Join(r.Assumptions, "; "))
	}
	if !h.Tokens() {
		p.damage("overlaps", r.Overlaps)
		p.damage("lost updates", r.Lost)
	}
	p.violations("excused", r.Excused)
	p.violations("VIOLATIONS", r.Violations)
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) violations(title string, all []Violation) {
	p.line("  %s: %d", title, len(all))
	for _, v := range all[:min(len(all), most)] {
		excuse := ""
		if v.Assumption != "" {
			excuse = fmt.Sprintf(" [broken: %s]", v.Assumption)
		}
		p.line("    %s: %s%s", v.Promise, v.Text, excuse)
	}
	p.more(len(all))
}

func (p *printer) damage(title string, all []Damage) {
	p.line("  %s: %d", title, len(all))
	for _, d := range all[:min(len(all), most)] {
		faults := "none"
		if len(d.Faults) > 0 {
			faults = strings.Join(d.Faults, ", ")
		}
		p.line("    %s [faults: %s]", d.Text, faults)
	}
	p.more(len(all))
}

func (p *printer) more(n int) {
	if n > most {
		p.line("    and %d more", n-most)
	}
}
