package shell

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// Failure is why something failed. The zero Failure says that it did not.
type Failure struct {
	// Reason is the core's. An extension that missed, and a release that too few
	// nodes answered, are core.NoQuorum.
	Reason core.Reason
	Closed bool // the Client was closed; there is no Reason

	// Of core.Contended: the holder as the nodes know it, when the lease ends unless it is
	// extended, and how many wait before the caller.
	HeldBy     string
	RetryAfter time.Duration
	Ahead      int
	// Met is, of core.Contended, that no holder is known to have a quorum. Several may have come at
	// the same moment, and got some nodes each.
	Met bool
	// Slots is how many slots the holders of the name have in common, if the caller uses another
	// number: waiting does not help.
	Slots int

	// Op is what too few nodes did, and Nodes are those that did not. Of
	// core.Expired and core.Taken they are those of the last extension.
	Op    core.Op
	Nodes []NodeFailure

	// Last is why the last attempt of a caller failed who gave up, nil if there is
	// none.
	Last *Failure
}

// NodeFailure is one node's part of a Failure.
type NodeFailure struct {
	Node int
	Err  error
}

// Failed reports whether there is a failure.
func (f *Failure) Failed() bool { return f.Reason != core.NotOver || f.Closed }

// permanent reports whether waiting cannot help: so many of n nodes are
// misconfigured that the others are no quorum.
func (f *Failure) permanent(n int) bool {
	if f.Reason == core.Contended {
		return f.Slots > 0
	}
	working := n
	for _, failed := range f.Nodes {
		if node.Permanent(failed.Err) {
			working--
		}
	}
	return working < core.Quorum(n)
}

// same reports whether a waiter who was told of g learns nothing from f.
func (f *Failure) same(g *Failure) bool {
	if f.Reason == core.Contended {
		return g.Reason == core.Contended && f.HeldBy == g.HeldBy && f.Ahead == g.Ahead
	}
	return g.Failed() && g.Reason != core.Contended
}

// behind is the failure of a waiter that has so many of its own process before it.
func (f *Failure) behind(more int) *Failure {
	if f == nil || f.Reason != core.Contended || more <= 0 {
		return f
	}
	further := *f
	further.Ahead += more
	return &further
}

// lease tells one holder from others: by its label only if a node tells no more of it.
type lease struct {
	holder uint64
	label  string
}

// held describes the leases that refused: the label of the holder that most nodes
// report, and the longest remaining time. A node that reserves the name for the next
// in the queue counts only where no node tells of a holder: it may lag behind.
func held(peers []peerState, slots int) Failure {
	f := Failure{Reason: core.Contended, Op: core.Acquire}
	count, most, labelled := make(map[lease]int), 0, 0
	disagree, others := 0, 0 // nodes, and the number of slots that they know of
	reserved := false
	var ahead []int
	for i := range peers {
		s := peers[i].said
		if s.err != nil {
			disagree++ // for all that is known
		}
		if s.err != nil || s.answer.Status != node.Held {
			continue
		}
		f.RetryAfter = max(f.RetryAfter, s.answer.Remaining)
		ahead = append(ahead, s.answer.Ahead)
		if n := s.answer.Slots; slots > 0 && n > 0 && n != slots {
			disagree, others = disagree+1, max(others, n)
		}
		label := s.answer.HeldBy
		if label == node.NextInQueue {
			f.HeldBy, reserved = cmp.Or(f.HeldBy, label), true
			continue
		}
		by := lease{holder: s.answer.Holder}
		if by.holder == 0 {
			by.label = label
		}
		count[by]++
		if n := count[by]; label != "" && n > labelled {
			f.HeldBy, labelled = label, n
		}
		most = max(most, count[by])
	}
	f.Met = !reserved && most < core.Quorum(len(peers))
	f.Ahead = core.Ahead(ahead)
	// Two who come at the same moment, and get some nodes each, meet again: one wins.
	if len(peers)-disagree < core.Quorum(len(peers)) {
		f.Slots = others
	}
	return f
}

// missing lists the nodes that gave no answer to op that counts. A confirm is a
// part of acquiring.
func missing(peers []peerState, op core.Op, why core.Reason) Failure {
	f := Failure{Reason: why, Op: op}
	for i := range peers {
		s := peers[i].said
		if s.op != op && !(s.op == core.Confirm && op == core.Acquire) {
			continue // an older answer
		}
		err := s.err
		if err == nil {
			err = refusal(op, s.answer)
		}
		if err != nil {
			f.Nodes = append(f.Nodes, NodeFailure{i, err})
		}
	}
	return f
}

// refusal says what a node that answered lacks, nil if it did what was asked.
func refusal(op core.Op, a node.Answer) error {
	switch {
	case a.Status == node.Rejoining:
		return fmt.Errorf("rejoining: %w", &node.AbsenceError{Absence: a.Absence})
	case a.Status == node.Lost && op != core.Release && a.Detail != "":
		return fmt.Errorf("it does not have the lease any more: %s", a.Detail)
	case a.Status == node.Lost && op == core.Extend:
		return errors.New("another client has the lease")
	case a.Status == node.Lost && op != core.Release:
		return errors.New("it does not have the lease any more")
	case a.Status == node.Held, a.Status == node.Outrun:
		return errors.New("another acquirer has it")
	}
	return nil
}

// refusals is what the nodes answered to the acquire, for the waiter.
func refusals(peers []peerState) []core.Refusal {
	all := make([]core.Refusal, len(peers))
	for i := range peers {
		if s := peers[i].said; s.op == core.Acquire && s.err == nil {
			all[i] = core.Refusal{Status: core.Status(s.answer.Status), Remaining: s.answer.Remaining, Ahead: s.answer.Ahead,
				Watching: s.answer.Watching}
		}
	}
	return all
}
