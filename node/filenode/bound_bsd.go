//go:build darwin || freebsd

package filenode

import (
	"errors"
	"fmt"
)

// canBind says that there is nothing here that outlives a process as its children do, and no longer: a lock
// of the whole file is all that an open file can have.
func canBind() error {
	return fmt.Errorf("leases cannot be bound to processes on this system: %w", errors.ErrUnsupported)
}

func (l *locks) keep(int, int64) error         { return canBind() }
func (l *locks) drop(int, int64)               {}
func (l *locks) kept(int64) bool               { return true }
func (l *locks) awaitDrop(string, int64) error { return canBind() }
