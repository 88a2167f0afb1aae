package admission

import (
	"time"

	"github.com/fenlock/fenlock/node/respnode/internal/command"
)

// Outlook is whether a server may vote, and if not, what has to happen first.
type Outlook struct {
	Admitted bool
	Why      string // not
	Wait     time.Duration
	Rebuild  bool // its registers have to be rebuilt from other nodes first
	// Untouched: as in rebuild.Self.
	Untouched bool
}

// LookAhead returns the outlook of a server, as the next client that asks it for something
// would find it, without asking. Now is a time on the server's clock; maxTTL is the
// longest lease of the group, if the server has none recorded.
func LookAhead(l command.Looked, now time.Time, maxTTL time.Duration) Outlook {
	if marked(l.Facts) && l.Current() {
		return Outlook{Admitted: true}
	}
	if l.Fragile() {
		return Outlook{Untouched: untouched(l.Facts),
			Why: "it was started again, and whether it has all its data the next who asks it for a lock finds out: then it votes at once, or after MaxTTL"}
	}
	if l.MaxTTL != 0 {
		maxTTL = l.MaxTTL
	}
	const next = ", and nobody has asked it for a lock since; the next who does has it admitted"
	o := Outlook{Why: because(l.Facts), Untouched: untouched(l.Facts)}
	v, left := decide(l.Facts, maxTTL)
	switch v {
	case admit: // as it is marked: whether a server has kept its memory is not asked (Fragile)
		o.Why = "its registers have the format of an older fenlock; the next who asks it for a lock changes that"
	case rebuildFirst:
		if o.Rebuild, o.Why = true, "it was started again without its newest data"+next; l.Marked == "" && l.Terms == (command.Terms{}) {
			o.Why = "nobody has asked it for a lock yet; the first who does has it admitted"
		}
	case waitRun:
		o.Wait, o.Rebuild = left, true
	case waitNow:
		since, counting := l.Noticed(now)
		o.Wait, o.Rebuild = max(quarantine(maxTTL)-since, 0), true
		if !counting {
			o.Why += "; the time that it stays out begins when somebody asks it for a lock"
		} else if o.Wait == 0 {
			o.Why += "; it has waited, and the next who asks it for a lock has it admitted"
		}
	}
	return o
}
