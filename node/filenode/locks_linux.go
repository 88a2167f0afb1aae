package filenode

import (
	"io"
	"syscall"
)

// A lock of the kernel is on a byte far behind what is written. It belongs to an open file
// description (fcntl(2), F_OFD_SETLK), so it ends when the node is closed, or with its process.
// Waiting processes are in a queue of the kernel's.

const (
	ofdSet  = 37 // F_OFD_SETLK
	ofdWait = 38 // F_OFD_SETLKW

	locksAt = 1 << 40
)

// Bytes that are locked, behind those of the rooms.
const (
	headerByte = rooms     // by the process that writes the header
	openByte   = rooms + 1 // shared by all nodes that have the file open
)

// turnOf returns in whose turn an operation on a room is: those on other rooms go on.
func turnOf(room int) int { return room }

// locks are the kernel's locks of one node.
type locks struct{ fd int }

func (l *locks) set(command int, kind int16, which int) error {
	return lockByte(l.fd, command, kind, locksAt+int64(which))
}

// lockByte locks or unlocks a byte of the file that is open as fd.
func lockByte(fd, command int, kind int16, at int64) error {
	for {
		lock := syscall.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1}
		if err := syscall.FcntlFlock(uintptr(fd), command, &lock); err != syscall.EINTR {
			return err
		}
	}
}

// lock waits for a byte.
func (l *locks) lock(which int) error { return l.set(ofdWait, syscall.F_WRLCK, which) }

func (l *locks) unlock(which int) { _ = l.set(ofdSet, syscall.F_UNLCK, which) }

// enter tells other nodes that the file is open, until it is closed.
func (l *locks) enter() error { return l.set(ofdWait, syscall.F_RDLCK, openByte) }

// alone reports whether no other node has the file open, and keeps others from opening it until the
// next enter.
func (l *locks) alone() (bool, error) {
	err := l.set(ofdSet, syscall.F_WRLCK, openByte)
	if err == syscall.EAGAIN || err == syscall.EACCES {
		return false, nil
	}
	return err == nil, err
}
