package admit

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
	"github.com/fenlock/fenlock/node/rule"
)

// Facts are what a store says of itself. An engine reads them in one step where the store can do
// so. Otherwise it reads them in an order in which Notice and Mark notice what has changed
// meanwhile.
type Facts struct {
	Server string // as in node.Registers
	Memory string // as in node.Registers; a name that is kept until the memory is lost once more
	Terms  Terms  // as recorded

	// Votes: the mark of admission is there, and is of what the store is now.
	Votes bool
	// Marked: a mark is there, maybe of what the store was. Clients that still take the store for that
	// can make leases.
	Marked bool
	// Kept: the mark is of what the store was, and the store proves that it has lost nothing since.
	Kept bool
	// Recorded: anything is recorded: terms, a mark, a register, the word that it was used. Such a
	// store is not new, whatever Group.New says.
	Recorded bool

	// Counted: Out is certain, or will be once the mark is gone. Otherwise no client has noted yet
	// since when the store is out.
	Counted bool
	// Out is for how long at least the store has made no lease that it has forgotten, or has from
	// when it did not vote. It is by the store's clock, rounded down. It may be negative.
	Out time.Duration
	// Cause says why the store is out: node.Unused, Restarted, Replaced or SetBack.
	Cause node.Cause

	Untouched bool     // as in rebuild.Self
	Empty     []string // as in node.Registers, recorded with the mark
	// Logged: a register is on the disk before it is promised, so that a crash loses leases and no
	// registers. Only whether a person is warned depends on it. It must not save the rebuild. A
	// restored backup, and a promoted replica that lags, look like a crash and have old registers.
	// Such a store and one other would repeat numbers that it and a silent third store have given.
	Logged bool

	// State is the engine's own: what Notice and Mark compare, so that they do nothing to a store
	// that has changed since.
	State any
}

// check refuses facts that contradict each other: the store was changed by hand, or the engine is
// wrong.
func (f Facts) check() error {
	says := ""
	switch {
	case f.Votes && !f.Marked, f.Kept && !f.Marked:
		says = "that it was admitted, and that it was not"
	case f.Votes && f.Kept:
		says = "that it is what was admitted, and that it is something else"
	case f.Marked && !f.Recorded, f.Terms != (Terms{}) && !f.Recorded:
		says = "that nothing is recorded, and what is"
	case f.Marked && f.Memory == "":
		says = "that it was admitted, and not with which memory"
	case f.Terms.MaxTTL < 0:
		says = fmt.Sprintf("that the longest lease is %v", f.Terms.MaxTTL)
	}
	if says == "" {
		return nil
	}
	return fmt.Errorf("%w: the store says %s: what fenlock has recorded there was changed by something else",
		node.ErrMisconfigured, says)
}

// Client is what a client brings along that looks at a store.
type Client struct {
	Terms Terms
	Nodes int  // of its group
	New   bool // as in node.Group
}

// Do is what is to be done with a store next.
type Do uint8

// The verdicts.
const (
	Refuse Do = iota // the client must not use the store: Err says why
	Vote             // nothing: the store votes
	Note             // note that it is out since now, and remove its mark
	Wait             // Absence says why, and until when
	Ask              // ask the other nodes for their registers, and decide again
	Admit            // raise the registers to Tokens, then set the mark
)

// Verdict is a decision.
type Verdict struct {
	Do      Do
	Err     error
	Absence node.Absence
	// For Admit: what the registers have to be at least, and what is recorded with the mark. Weak
	// says that the registers are what is left, not what was promised.
	Tokens map[int]fence.Token
	Empty  []string
	Weak   bool
	New    bool // admitted on the word that all servers are new
}

// Quarantine returns for how long a store that may have forgotten leases does not vote. That is the
// longest lease of the group, and the drift of the clocks by which holders and stores measure it.
func Quarantine(maxTTL time.Duration) time.Duration { return maxTTL + rule.Drift(maxTTL) }

// Decide decides what a client does with a store that has these facts. The others are what the
// other nodes of the group answered, nil for each that did not; asked is false as long as they were
// not asked.
func Decide(f Facts, c Client, others []*node.Registers, asked bool) Verdict {
	if err := f.check(); err != nil {
		return Verdict{Do: Refuse, Err: err}
	}
	if err := f.Terms.Check(c.Terms); err != nil {
		return Verdict{Do: Refuse, Err: err}
	}
	switch {
	case f.Votes:
		return Verdict{Do: Vote}
	case f.Kept:
		return Verdict{Do: Admit, Empty: f.Empty}
	case f.Marked || !f.Counted:
		return Verdict{Do: Note}
	}
	left := Quarantine(c.Terms.MaxTTL) - f.Out
	wait := Verdict{Do: Wait, Absence: node.Absence{Cause: f.Cause, Wait: left}}
	founds := c.New && !f.Recorded
	if left > 0 && !founds {
		return wait
	}
	if !asked {
		return Verdict{Do: Ask}
	}
	// A client of another group must not make this one from what is left of that.
	for _, r := range others {
		if r == nil {
			continue
		}
		if err := (Terms{r.MaxTTL, r.Members}).Check(c.Terms); err != nil {
			return Verdict{Do: Refuse, Err: fmt.Errorf("another node cannot be used: %w", err)}
		}
	}
	isNew := founds && allNew(f.Memory, others)
	if left > 0 && !isNew {
		return wait
	}
	merged, err := rebuild.Merge(c.Nodes, rebuild.Self{Server: f.Server, Memory: f.Memory, Untouched: f.Untouched}, others)
	if err != nil {
		return Verdict{Do: Wait, Absence: missing(err)}
	}
	return Verdict{Do: Admit, Tokens: merged.Tokens, Empty: merged.Empty, Weak: merged.Weak, New: isNew}
}

// missing is what rebuild.Merge lacks, as an absence.
func missing(err error) node.Absence {
	if m, ok := err.(*rebuild.MissingError); ok {
		if m.Majority {
			return node.Absence{Cause: node.NeedsMajority, Need: m.Need, Have: m.Have}
		}
		return node.Absence{Cause: node.NeedsRegisters, Need: m.Need, Have: m.Have}
	}
	return node.Absence{Cause: node.Failed, Detail: err.Error()}
}

// allNew reports whether all others of a group are as new as a store with this memory. Each
// answers, and has nothing recorded, or was admitted as new when this one was as well. A node that
// does not answer may have been used.
func allNew(memory string, others []*node.Registers) bool {
	return !slices.ContainsFunc(others, func(r *node.Registers) bool {
		switch {
		case r == nil:
			return true
		case r.Admitted:
			return !slices.Contains(r.Empty, memory)
		}
		return r.MaxTTL != 0 || r.Members != "" || len(r.Tokens) > 0
	})
}
