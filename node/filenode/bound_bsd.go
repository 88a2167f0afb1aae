//go:build darwin || freebsd

package filenode

import (
	"errors"
	"fmt"
)

// canBind says that nothing here lasts for exactly as long as a process and its children. A lock of
// the whole file is all that an open file can have.
func canBind() error {
	return fmt.Errorf("leases cannot be bound to processes on this system: %w", errors.ErrUnsupported)
}

func (l *locks) keep(int, int64) error         { return canBind() }
func (l *locks) drop(int, int64)               {}
func (l *locks) kept(int64) bool               { return true }
func (l *locks) awaitDrop(string, int64) error { return canBind() }
