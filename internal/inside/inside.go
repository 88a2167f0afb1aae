// Package inside passes to packages groups and leader what package fenlock does not export. That is
// how to take a name on two Lockers, and how Do holds a lock. It cannot import package fenlock, so
// comments tell the types. Package fenlock sets the variables when it is initialised.
package inside

import (
	"context"
	"log/slog"
)

// Hold holds a *fenlock.Lock as Locker.Do does. Work gets a child of ctx that ends with the lock,
// and release returns why the lock was lost, or nil. The Logger is that of the lock's Locker.
var Hold func(ctx context.Context, lock any) (held context.Context, release func() error, logger *slog.Logger)

// Spread returns a value that takes names on several Lockers, with the methods of interface locking
// in package groups. Of is a func(name string) (on, leaving *fenlock.Locker): the Locker of a name
// and, while the name moves, the Locker that it leaves, or nil. Any is one of the Lockers.
var Spread func(of, any any) any
