package shell

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Env is the world that a Client lives in. Its methods return at once, and are
// safe for concurrent use where the world has more than one goroutine.
type Env interface {
	// Now is a monotonic clock, from any epoch. It should go on while the machine is
	// suspended, since leases end meanwhile.
	Now() time.Duration
	// WallMicros is the wall clock in microseconds since 1970, for proposals. No
	// promise rests on it.
	WallMicros() int64
	// AfterFunc has f run, on its own, when so much time has passed.
	AfterFunc(d time.Duration, f func()) Timer
	// Go has f run soon, on its own: it may block others, and they it.
	Go(f func())
	// Random is uniform in [0, 1).
	Random() float64
	// ID returns 128 bits that cannot be guessed, in hexadecimal digits.
	ID() [node.IDLength]byte
}

// Timer is what AfterFunc returns: a *time.Timer of that function.
type Timer interface {
	Reset(d time.Duration) bool
	Stop() bool
}

// Peer is a node as the shell sees it: everything is begun, and answered by a
// callback from any goroutine.
type Peer interface {
	// Start is node.Starter's. Values has the values of the caller's context, for wrappers of
	// nodes, and no end.
	Start(values context.Context, r node.Request, timeout time.Duration, call node.Call)
	// InOrder is node.Ordered's.
	InOrder() bool
	// Queues reports whether the node is a node.Queuer. Without, Listen is not called.
	Queues() bool
	// Listen begins what node.Queuer's does. Done is called once, with what that
	// returns.
	Listen(client string, timeout time.Duration, notify func(waiter string), done func(error))
}
