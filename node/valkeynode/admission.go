package valkeynode

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"

	"github.com/fenlock/fenlock"
)

// This file decides whether a server may vote; it has no I/O. A server that
// forgot its leases would grant what others hold, and one that forgot its
// registers would promise numbers that were used. DESIGN: "A node that
// restarts".

// verdict is what is to be done with a server.
type verdict uint8

const (
	admit   verdict = iota // nothing was forgotten: mark it and load the scripts
	rebuild                // leases that were forgotten have run out: rebuild the registers, then admit
	waitRun                // wait out the quarantine, counted from the server's start
	waitNow                // wait out the quarantine, counted from when this was first noticed
)

// quarantine is how long a server without memory stays out: the longest lease,
// and the drift of the clocks by which holders and servers measure it.
func quarantine(maxTTL time.Duration) time.Duration { return maxTTL + core.Drift(maxTTL) }

// uptimeSlack covers that INFO counts whole seconds, of times rounded down on
// both sides: a server can be up for almost a second less than it says.
const uptimeSlack = time.Second

// decide returns the verdict on a server with these facts, in a group with this
// longest lease, and for waitRun how long it takes.
func decide(f facts, maxTTL time.Duration) (verdict, time.Duration) {
	// The mark is in the same memory as the leases and registers. If it names
	// what the server is now, the memory has not been lost since.
	if f.marked == f.replID {
		return admit, 0
	}
	// A replica that was promoted has been up all the time, and lacks what had
	// not been replicated. Scripts without a mark, or a flushed script cache
	// without one, mean FLUSHALL or the like, whenever that was.
	if !f.untouched() {
		return waitNow, 0
	}
	// From here on the server has been started since it was admitted last.
	if f.marked != "" && f.wasDurable && f.durable() {
		return admit, 0
	}
	if left := quarantine(max(maxTTL, f.maxTTL)) + uptimeSlack - f.uptime; left > 0 {
		return waitRun, left
	}
	return rebuild, 0
}

// because says why a server is out, for people.
func (f facts) because() string {
	switch {
	case f.promoted, f.scriptsLoaded && f.marked != "":
		return "it was a replica, or its replication history has changed, and it may lack the newest leases"
	case f.scriptsLoaded, f.scriptsFlushed:
		return "its registers are not there: its data was flushed, or this group or prefix is new to it"
	default: // without its uptime: the same news must read the same
		return "it was started a short time ago and may have forgotten leases"
	}
}

// untouched reports whether the server cannot have been admitted since it was
// started: nobody has loaded a script.
func (f facts) untouched() bool { return !f.scriptsLoaded && !f.scriptsFlushed && !f.promoted }

// rebuilt is the outcome of asking the other nodes for their registers.
type rebuilt struct {
	tokens map[int]fence.Token // element by element, the maximum
	maxTTL time.Duration       // the longest that any of them has recorded
	// weak: a majority has lost its memory, so that the registers are what is
	// left and not what was promised.
	weak bool
	// empty are the memories that were lost when that happened.
	empty []string
}

// merge merges what the other nodes of a group of n answered for a server with
// these facts; nil stands for no answer. Nodes that lead to one server count once.
// The error says what is missing.
//
// A token that an attempt finished with is fixed at q nodes, this one perhaps
// included before it lost its memory, so at q-1 of the n-1 others at least. Any
// n-q+1 of the others share one with these. (For an odd n that is q.) A node
// that does not answer may be admitted, so less than that is taken only if so
// many are impossible, whatever the silent ones would say: then a majority has
// lost its memory at once, or the group is new.
//
// From then on, a server that was found empty at that moment and has not been
// admitted since is known to take no part in any token fixed since. So every
// such token is fixed at q of the others, and it is enough that fewer than q of
// those were not read. Without this rule the servers that come back one after
// the other would wait for one that never does.
func merge(n int, self facts, answers []*fenlock.Registers) (rebuilt, error) {
	r := rebuilt{tokens: make(map[int]fence.Token)}
	quorum := core.Quorum(n)
	need := n - quorum + 1
	seen := map[string]bool{self.runID: true}
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
		r.maxTTL = max(r.maxTTL, a.MaxTTL)
		for stripe, token := range a.Tokens {
			r.tokens[stripe] = max(r.tokens[stripe], token)
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
	if self.untouched() && listed[self.replID] && unread < quorum {
		r.empty = slices.Sorted(maps.Keys(listed))
		return r, nil
	}
	if admitted+silent >= need {
		return r, fmt.Errorf("its registers must be rebuilt from %d other nodes, and only %d of the others that have theirs can be reached", need, admitted)
	}
	if 1+admitted+len(empty) < quorum {
		return r, fmt.Errorf("a majority of the nodes must be reached to start without registers, and only %d can be", 1+admitted+len(empty))
	}
	r.weak = true
	r.empty = append(empty, self.replID)
	return r, nil
}
