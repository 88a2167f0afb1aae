package node

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Rejoiner is an engine that can lose its memory while its address stays the same.
// A Locker calls Join once, before any operation.
type Rejoiner interface {
	// Join tells the node its quorum group. It does no I/O. A node that is
	// joined to two different groups returns an error.
	Join(g Group) error
	// Registers returns all registers, for the rebuilding of another node.
	Registers(ctx context.Context) (Registers, error)
}

// Group is what a node needs to know to be admitted again after a loss.
type Group struct {
	Nodes []Node // all of them, the node itself included
	// MaxTTL is the longest lease that any client of the group may take; a node that lost its
	// memory stays out for so long.
	MaxTTL time.Duration
	// New asserts that no server of the group was ever used. A node whose whole group answers, and
	// has nothing recorded, need not wait then.
	New bool
	// Warn is told, in one line, what a person should know of a node and no answer says. Answers
	// and errors reach only the caller that asked. It may be called at any time from any goroutine.
	Warn func(n Node, message string)
}

// Registers is one node's registers, and what they are worth.
type Registers struct {
	Server string // identifies the server: two nodes with the same one are one
	Memory string // identifies what it remembers: another one after each loss
	// Admitted: the node has its memory; false: what is left of it. A store that was started again
	// and has lost nothing has its memory, also before it votes again; as long as that is not
	// known, it must not answer. With false it counts as lost. Then another store that lost its
	// memory would not wait for a node that cannot be reached, and knows what was promised.
	Admitted bool
	// Empty are the memories that were found lost when this node was admitted
	// while a majority had lost theirs, or in a new group.
	Empty  []string
	MaxTTL time.Duration // as recorded; 0 if it is not
	// Members are the nodes of its group, as the clients that admitted it name them, in
	// a form of the engine's; empty if it is not recorded.
	Members string
	Tokens  map[int]fence.Token // by stripe; absent is 0
}
