package cas

import (
	"context"
	"errors"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// Store is what an adapter gives to a Node. Its methods are safe for concurrent use, and return
// soon after ctx is done. Their errors match node.ErrMisconfigured if waiting does not help, say
// what a person can do, and contain no password; the Node puts the node's name before them.
type Store interface {
	// Load reads the record of a stripe as it is now, and what has to be known to promise something
	// by it. It promises nothing, so what fails may be tried again. An error that matches
	// ErrConflict or ErrAgain says that it is worth it.
	Load(ctx context.Context, stripe int) (Loaded, error)

	// Save writes a record if the store's is still the one that was loaded or saved. It was decided
	// on when the clock showed over.Clock. Save returns what it is now, for the next Save. A Save
	// over an earlier version fails, whatever has been written to the record, deleted or put back
	// since. Versions never return, not even in another store at the same address. With an error
	// that matches ErrConflict, ErrAgain or node.ErrNotSent nothing was done, and never will be.
	// Any other one is unknown. It sends the write once.
	Save(ctx context.Context, stripe int, r Record, over Loaded) (Loaded, error)

	// List calls yield for the records of the store, until it returns false. It reads a bounded
	// number at a time, and keeps nothing while yield runs: that may take long, or use the node.
	List(ctx context.Context, yield func(stripe int, l Loaded) bool) error

	// Registers is node.Rejoiner's. None of them is old, and all are of the memory that is named.
	Registers(ctx context.Context) (node.Registers, error)

	admit.Store
}

// Loaded is a record as a store has it.
type Loaded struct {
	// Clock is what the store's clock shows, read after Load was called and before all else. From
	// Save it is what the clock showed at the write, at most, 0 if that is not known.
	Clock time.Duration
	Record
	Server string      // as in node.Registers
	Terms  admit.Terms // as recorded
	// Votes: the mark of admission is there, and is of what the store is now. Otherwise only a
	// release is carried out.
	Votes bool
	// Unfit is why nothing may be promised all the same, nil for no reason. A release does not mind
	// it.
	Unfit error
	// State is the adapter's own: the version that Save compares, for example.
	State any
	// Closer, unless nil, is called if an acquire would be refused. It returns the record without
	// the leases that have ended, where to know that takes a request of its own.
	Closer func(ctx context.Context) (Record, error)
	// Close, unless nil, is called once for what Load has returned, when no Save over it will
	// follow, or after that: for a connection.
	Close func()
}

var (
	// ErrConflict matches the error of what did nothing since another client was first.
	ErrConflict = errors.New("another client has changed the record meanwhile")
	// ErrAgain matches the error of what did nothing for a reason that may be gone at once: a
	// connection that turned out to be broken. It is tried a few times. See Again.
	ErrAgain = errors.New("nothing was done")
)

// Again marks an error with ErrAgain and node.ErrNotSent. Its text stays. Again(nil) is nil.
func Again(err error) error {
	if err == nil {
		return nil
	}
	return again{node.NotSent(err)}
}

type again struct{ error }

func (e again) Unwrap() error { return e.error }

func (e again) Is(target error) bool { return target == ErrAgain }

// Teller is a Store that can tell clients something: see Queued.
type Teller interface {
	Store
	// Attend makes a client one that Reachable finds, calls h.Begun, and tells h what it hears,
	// until ctx is done or it fails. It is called again after a while then. It tells of what was
	// saved, and never of a Save that was refused: a notice may say that a waiter has the name.
	// When it returns, or the process has ended, Reachable finds the client no more; it need not
	// notice the latter at once.
	Attend(ctx context.Context, h *Hearing) error
	// Reachable reports whether a client is attended to somewhere. Where that is not known, the
	// answer is true.
	Reachable(ctx context.Context, over Loaded, client string) (bool, error)
}
