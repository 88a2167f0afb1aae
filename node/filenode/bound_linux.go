package filenode

import "syscall"

const ofdGet = 36 // F_OFD_GETLK

func canBind() error { return nil }

// Holders lock their byte shared, which an open file that is only read can do. A waiter for the end
// of that asks for an exclusive lock. So a byte with an exclusive lock has no holder: a waiter has
// just seen the end.

// keep locks a holder's byte on an open file of its own.
func (l *locks) keep(fd int, at int64) error { return lockByte(fd, ofdSet, syscall.F_RDLCK, at) }

func (l *locks) drop(fd int, at int64) { _ = lockByte(fd, ofdSet, syscall.F_UNLCK, at) }

// kept reports whether a holder's byte is locked. If that cannot be found out, it is.
func (l *locks) kept(at int64) bool {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: at, Len: 1}
	if err := syscall.FcntlFlock(uintptr(l.fd), ofdGet, &lock); err != nil {
		return true
	}
	return lock.Type == syscall.F_RDLCK
}

// awaitDrop returns when a holder's byte is not locked.
func (l *locks) awaitDrop(path string, at int64) error {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	for err == syscall.EINTR {
		fd, err = syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	}
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return lockByte(fd, ofdWait, syscall.F_WRLCK, at)
}
