package core

import (
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// The words of the contract with the nodes, under the names that they have in the
// algorithm.
type (
	Status = node.Status // what a node answered
	Op     = node.Op     // what it was asked
)

// The answers: see package node.
const (
	Unknown   = node.Unknown
	Granted   = node.Granted
	Held      = node.Held
	Outrun    = node.Outrun
	Lost      = node.Lost
	Rejoining = node.Rejoining
)

// The operations in the life of a lock; None is no operation.
const (
	None    = Op(0)
	Acquire = node.Acquire
	Confirm = node.Confirm
	Extend  = node.Extend
	Release = node.Release
)

// Reply is one node's answer as far as the algorithm needs it.
type Reply struct {
	Status Status
	// Unsent is Unknown about a request that was certainly not carried out and never
	// will be.
	Unsent bool
	// Silent is Unknown of a node that has not answered in time, and still may.
	Silent bool
	// Register is the register of the name's stripe after the operation. For
	// a granted acquire it is the number granted, for a granted extend the
	// lease's origin. Zero where the answer carries none.
	Register fence.Token
}

// Action tells the shell what to send after an event: Op to every node of To.
// The zero Action means that there is nothing to send.
type Action struct {
	Op Op
	To Set
	// Token is the proposal of an acquire, the number a confirm asks about, or
	// the floor of an extend: 0, unless it raises the mark.
	Token fence.Token
	// Floor is the floor of an extend that raises no mark: an adopter's, see NewAdoption.
	Floor fence.Token
	// Round tells the replies of one extension from those of another.
	Round uint32
	// Shared says that others may share the name from an extend on.
	Shared bool
}
