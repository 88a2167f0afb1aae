package core

import (
	"fmt"

	"github.com/fenlock/fenlock/fence"
)

// Status is what one node answered to one request. There are three kinds of
// answers, and they are never mixed up: granted, refused (for one of four
// reasons), and unknown.
type Status uint8

const (
	// Unknown means that no answer came that can be trusted: a timeout, a
	// broken connection, an error. The request may have been executed, may be
	// executed later, or never. It counts neither for nor against.
	Unknown Status = iota
	// Granted means that the node did what was asked.
	Granted
	// Held refuses an acquire: the name is leased already.
	Held
	// Outrun refuses a confirm: the lease is the holder's, but the register
	// has moved past the number that was to be confirmed.
	Outrun
	// Lost refuses a confirm, an extend or a release: the lease is not the
	// holder's (any more).
	Lost
	// Rejoining refuses everything: the node has lost its memory, or may have,
	// and has not been admitted again.
	Rejoining
)

// String returns the status in lower case.
func (s Status) String() string {
	names := [...]string{"unknown", "granted", "held", "outrun", "lost", "rejoining"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// Reply is one node's answer as far as the algorithm needs it.
type Reply struct {
	Status Status
	// Register is the register of the name's stripe after the operation. For
	// a granted acquire it is the number granted. Zero where the answer
	// carries none.
	Register fence.Token
}

// Op names a request to a node.
type Op uint8

const (
	None Op = iota
	Acquire
	Confirm
	Extend
	Release
)

// String returns the operation in lower case.
func (o Op) String() string {
	names := [...]string{"none", "acquire", "confirm", "extend", "release"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Action tells the shell what to send after an event: Op to every node of To.
// The zero Action means that there is nothing to send.
type Action struct {
	Op Op
	To Set
	// Token is the proposal of an acquire, the number a confirm asks about, or
	// the token of an extend.
	Token fence.Token
	// Round tells the replies of one extension from those of another.
	Round uint32
}
