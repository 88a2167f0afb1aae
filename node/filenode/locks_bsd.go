//go:build darwin || freebsd

package filenode

import "syscall"

// There are no locks on a part of the file here that belong to an open file. One lock on the whole
// file (flock(2)) is in their place.

const (
	headerByte = rooms
	openByte   = rooms + 1
)

// turnOf returns the one turn of all rooms.
func turnOf(int) int { return 0 }

// locks are the kernel's lock of one node. The operation that has the turn uses them.
type locks struct {
	fd   int
	held int
}

func (l *locks) lock(int) error {
	if l.held++; l.held > 1 {
		return nil
	}
	for {
		if err := syscall.Flock(l.fd, syscall.LOCK_EX); err != syscall.EINTR {
			if err != nil {
				l.held--
			}
			return err
		}
	}
}

func (l *locks) unlock(int) {
	if l.held--; l.held == 0 {
		_ = syscall.Flock(l.fd, syscall.LOCK_UN)
	}
}

func (l *locks) enter() error { return nil }

// alone cannot tell: boots have names of their own on these systems, and containers none.
func (l *locks) alone() (bool, error) { return true, nil }
