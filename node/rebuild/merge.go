// Package rebuild is how the registers of a node that lost its memory are made
// anew from the others'. It decides what is enough; when to ask, and what to do
// with the result, is the engine's.
package rebuild

import (
	"maps"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Self is the node that is to be admitted.
type Self struct {
	Server string // as in node.Registers
	Memory string
	// Untouched: it cannot have been admitted with this memory.
	Untouched bool
}

// Result is the outcome of asking the other nodes for their registers.
type Result struct {
	Tokens map[int]fence.Token // element by element, the maximum
	MaxTTL time.Duration       // the longest that any of them has recorded
	// Weak: a majority has lost its memory, so that the registers are what is
	// left and not what was promised.
	Weak bool
	// Empty are the memories that were lost when that happened.
	Empty []string
}

// MissingError is the error for nodes that have to be reached, and were not.
type MissingError struct {
	// Majority: no majority has its registers. Need nodes must be reached to begin without them, this
	// one included. Otherwise the registers must be rebuilt from Need others.
	Majority   bool
	Need, Have int
}

// Error has both numbers.
func (e *MissingError) Error() string {
	cause := node.NeedsRegisters
	if e.Majority {
		cause = node.NeedsMajority
	}
	return node.Absence{Cause: cause, Need: e.Need, Have: e.Have}.String()
}

// Merge merges what the other nodes of a group of n answered for a server with
// this self; nil stands for no answer. Nodes that lead to one server count once.
// The error is a *MissingError.
//
// A token that an attempt finished with is fixed at q nodes. This node may be one of them, before
// it lost its memory. So it is fixed at q-1 of the n-1 others at least. Any n-q+1 of the others
// share one with these. (For an odd n that is q.) A node that does not answer may be admitted. So
// less than that is taken only if so many are impossible, whatever the silent nodes would say. Then
// a majority has lost its memory at once, or the group is new.
//
// From then on, a server that was found empty then, and was not admitted since, takes no part in
// any token fixed since. So every such token is fixed at q of the others, and it is enough that
// fewer than q of those were not read. Without this rule the servers that come back one after the
// other would wait for one that never does.
func Merge(n int, self Self, answers []*node.Registers) (Result, error) {
	r := Result{Tokens: make(map[int]fence.Token)}
	quorum := node.Quorum(n)
	need := n - quorum + 1
	seen := map[string]bool{self.Server: true}
	listed := make(map[string]bool)
	admitted, silent := 0, 0
	var empty []string
	for _, a := range answers {
		switch {
		case a == nil:
			silent++
			continue
		case seen[a.Server]:
			continue
		case a.Admitted:
			admitted++
			for _, memory := range a.Empty {
				listed[memory] = true
			}
		default:
			empty = append(empty, a.Memory)
		}
		seen[a.Server] = true
		r.MaxTTL = max(r.MaxTTL, a.MaxTTL)
		for stripe, token := range a.Tokens {
			r.Tokens[stripe] = max(r.Tokens[stripe], token)
		}
	}
	if admitted >= need {
		return r, nil
	}
	unread := silent
	for _, memory := range empty {
		if !listed[memory] {
			unread++
		}
	}
	if self.Untouched && listed[self.Memory] && unread < quorum {
		r.Empty = slices.Sorted(maps.Keys(listed))
		return r, nil
	}
	if admitted+silent >= need {
		return r, &MissingError{Need: need, Have: admitted}
	}
	if 1+admitted+len(empty) < quorum {
		return r, &MissingError{Majority: true, Need: quorum, Have: 1 + admitted + len(empty)}
	}
	r.Weak = true
	r.Empty = append(empty, self.Memory)
	return r, nil
}
