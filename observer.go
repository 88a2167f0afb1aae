package fenlock

import (
	"context"
	"strings"
)

// Observer is told what happens to the callers of a Locker, and to its nodes, for logs
// and metrics. Each field may be nil. The functions are called from many goroutines
// at once, and must return soon.
type Observer struct {
	// Waiting is called when an Acquire begins to wait, and again when the reason
	// changes: another holder, or another number of waiters ahead. Ctx is the
	// one that was passed to Acquire. Why is a *HeldError or a *QuorumError, the
	// newest if there were several since the last call. It is called in the goroutine of
	// Acquire, which waits for it, even if it has the lock by then.
	Waiting func(ctx context.Context, name string, why error)

	// Node is called when a node stops working, when it does so in another way, and when
	// it works again: each change once, of one node in order. A node of which nothing was
	// told works, or has not been asked for anything yet: nothing is sent to find out. One
	// that comes and goes is told of at most once a minute after the first few times.
	// Close waits until it has returned. The Logger hears the same.
	Node func(change NodeChange)
}

// NodeChange says how a node does from now on, as far as its answers tell.
type NodeChange struct {
	Node  string // as Node.String has it
	State NodeState
	// Err is why, nil if it works. It matches what the node's error matches:
	// ErrMisconfigured, for example.
	Err error
}

// NodeState is how a node does.
type NodeState uint8

// The states of a node. All but the first are those of a node whose vote does not count.
const (
	NodeWorks         NodeState = iota // it answers in time
	NodeDown                           // no answer, or an error that passes
	NodeLate                           // its answers come after the node timeout
	NodeOut                            // it is not admitted: it may have lost its memory
	NodeMisconfigured                  // somebody has to change something: ErrMisconfigured
)

// String returns the state in words that follow "the node".
func (s NodeState) String() string {
	names := [...]string{"works", "is down", "is late", "is out", "is misconfigured"}
	if int(s) < len(names) {
		return names[s]
	}
	return "is in no known state"
}

// String says it in one line, with the node's name once.
func (c NodeChange) String() string {
	if c.Err == nil {
		return "node " + c.Node + " " + c.State.String() + " again"
	}
	return "node " + c.Node + " " + c.State.String() + ": " + c.reason()
}

// reason is the error without what the name and the state of the node say already.
func (c NodeChange) reason() string {
	text := strings.TrimPrefix(c.Err.Error(), c.Node+": ")
	if c.State == NodeMisconfigured {
		text = strings.TrimPrefix(text, ErrMisconfigured.Error()+": ")
	}
	return text
}
