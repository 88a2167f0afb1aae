package admit

import (
	"time"

	"github.com/fenlock/fenlock/node"
)

// Examine fills in what an Examination says of admission: whether the store votes, why not, and
// what has to happen first. MaxTTL is the longest lease of the group, for a store that has none
// recorded; 0 if that is not known. It is what the next client would find that asks the store for a
// lock.
func (f Facts) Examine(e *node.Examination, maxTTL time.Duration) {
	e.Server, e.Memory, e.Empty, e.Untouched = f.Server, f.Memory, f.Empty, f.Untouched
	e.MaxTTL, e.Members = f.Terms.MaxTTL, f.Terms.members()
	if f.Terms.Members == AnyMembers {
		e.Members = nil
	}
	own := f.Terms
	if own.MaxTTL == 0 {
		own.MaxTTL = maxTTL
	}
	// With no others and no group, what is left is what the store has to wait for.
	v := Decide(f, Client{Terms: own, Nodes: 1}, nil, false)
	const next = "the next client that asks it for a lock has it admitted"
	switch v.Do {
	case Vote:
		e.Admitted = true
	case Refuse:
		e.Why = v.Err.Error()
	case Admit:
		e.Why = "it has lost nothing, and " + next
	case Note, Wait, Ask:
		e.Rebuild, e.Why = true, f.Cause.String()
		switch {
		case !f.Counted:
			e.Wait = Quarantine(own.MaxTTL)
			e.Why += "; the time for which it stays out begins when a client asks it for a lock"
		case f.Out < Quarantine(own.MaxTTL):
			e.Wait = Quarantine(own.MaxTTL) - f.Out
		default:
			e.Why = "it has waited for the longest lease, and " + next
		}
	}
}
