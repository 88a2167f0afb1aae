package node

import (
	"fmt"
	"strconv"
	"time"
)

// Absence says why a node does not vote, and until when. The zero Absence is that of a node that
// votes.
type Absence struct {
	Cause Cause
	// Wait is the time until the node can vote at the earliest, from when the answer was made. 0: it
	// is not known, or it is not a matter of time.
	Wait time.Duration
	// Need and Have are, for NeedsRegisters and NeedsMajority, how many nodes are needed and how
	// many can be reached.
	Need, Have int
	// Detail is, for Failed and UnderWay, what went wrong, for people. It contains no password.
	Detail string
}

// Cause is the reason of an Absence.
type Cause uint8

// The causes. A person reads Absence.String.
const (
	// Present: the node votes.
	Present Cause = iota
	// NotJoined: the client is in no group, so that it admits no node.
	NotJoined
	// Unused: the store has nothing recorded. It is new, or its data was deleted.
	Unused
	// Restarted: the store was started again, and its leases did not survive that for certain.
	Restarted
	// Replaced: the store is another one than was admitted: a replica that was promoted, a restored
	// backup, a copy, a cluster that was made anew.
	Replaced
	// SetBack: the store is the one that was admitted, in an earlier state.
	SetBack
	// NeedsRegisters: the registers must be rebuilt from Need other nodes that have theirs.
	NeedsRegisters
	// NeedsMajority: no majority has its registers, and so many must be reached to begin without.
	NeedsMajority
	// UnderWay: an admission is under way, and the caller could not wait for it.
	UnderWay
	// Changed: the store changed each time that it was about to be admitted.
	Changed
	// Failed: the store could not be looked at, or could not be written to.
	Failed
)

// String returns the cause as half a sentence for people, without the time and without Detail.
func (c Cause) String() string {
	texts := [...]string{
		Present:        "it votes",
		NotJoined:      "it is not admitted, and only a client that takes locks admits it (fenlock.New, fenlock run)",
		Unused:         "its registers are not there: its data was deleted, or this group or prefix is new to it",
		Restarted:      "it was started a short time ago and may have forgotten leases",
		Replaced:       "it is another store than the one that was admitted (a promoted replica, a restored backup, a copy), and may have forgotten leases",
		SetBack:        "it was set back to an earlier state, and may have forgotten leases",
		NeedsRegisters: "its registers must be rebuilt from other nodes",
		NeedsMajority:  "a majority of the nodes must be reached to start without registers",
		UnderWay:       "its admission is under way",
		Changed:        "it changed while it was being admitted",
		Failed:         "its admission failed",
	}
	if int(c) < len(texts) {
		return texts[c]
	}
	return "cause(" + itoa(uint64(c)) + ")"
}

// String returns the absence for people, with the seconds until voting starts, rounded up.
func (a Absence) String() string {
	text := a.Cause.String()
	switch a.Cause {
	case NeedsRegisters:
		text = fmt.Sprintf(
			"its registers must be rebuilt from %d other nodes, and only %d of the others that have theirs can be reached",
			a.Need, a.Have)
	case NeedsMajority:
		text = fmt.Sprintf("%s, and only %d of %d can be", text, a.Have, a.Need)
	}
	if a.Detail != "" {
		text += ": " + a.Detail
	}
	if a.Wait > 0 {
		text += fmt.Sprintf("; voting starts in %d s", (a.Wait+time.Second-1)/time.Second)
	}
	return text
}

// AbsenceError is the error for a node that answers and does not vote. errors.As finds it in a
// fenlock.QuorumError.
type AbsenceError struct{ Absence Absence }

// Error returns the absence for people.
func (e *AbsenceError) Error() string { return e.Absence.String() }

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }
