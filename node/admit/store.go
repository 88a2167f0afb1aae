package admit

import (
	"context"

	"github.com/fenlock/fenlock/fence"
)

// Store is what an engine gives to an Admission. Its methods are called one at a time, from a
// goroutine of the Admission's, and return soon after ctx is done. Their errors name the node,
// contain no password, and match node.ErrMisconfigured if waiting does not help. The registers of
// the store and the mark of admission share one fate: what removes the registers removes the mark.
type Store interface {
	// Facts reads what the store says of itself. It changes nothing that decides.
	Facts(ctx context.Context) (Facts, error)

	// Note removes the mark, and notes that the store is out from now on, by its own clock, in one
	// step: Facts.Out counts from here. Where the store can do so, all leases go in the same step.
	// It returns false, and has done nothing, if the store is not what the facts say any more.
	// A note that is there already, of the same loss, stays as it is.
	Note(ctx context.Context, f Facts) (bool, error)

	// Raise makes the registers at least these, by stripe. It lowers none. It may be carried out in
	// parts, at any time later, or on a store that has changed.
	Raise(ctx context.Context, f Facts, tokens map[int]fence.Token) error

	// Mark sets the mark of admission to what the store is now, and removes the note. It records
	// the terms, unless other terms are recorded by now, and the memories that were found empty.
	// All of it is one step. It returns false, and has done nothing, if the store is not what the
	// facts say any more. Leases that a store which was out may still have are removed in this step
	// or before it. They may stay if they have ended for certain. They end by the clock that
	// Facts.Out counts by, and the mark was gone for all of it.
	Mark(ctx context.Context, f Facts, own Terms, empty []string) (bool, error)
}
