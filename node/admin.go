package node

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Admin is an engine that shows its leases to an operator, who may break one by the
// operation ForceRelease.
type Admin interface {
	// Inspect returns the lease of a name and the register of its stripe. A name
	// without a lease has Remaining 0.
	Inspect(ctx context.Context, name string) (Lease, error)

	// List calls yield for every lease until yield returns false. Leases that
	// come or go meanwhile may or may not be listed.
	List(ctx context.Context, yield func(Lease) bool) error
}

// Lease is what an operator sees of a name on one node. The holder's identity
// is left out on purpose: whoever knows it can release the lease.
type Lease struct {
	Name      string
	Label     string // empty for a lease of another Redlock client
	Remaining time.Duration
	Register  fence.Token // of the name's stripe
}
