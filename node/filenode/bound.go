//go:build linux || darwin || freebsd

package filenode

import (
	"os"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// A lease that is bound to processes has no end by time. As long as it lasts, a byte of the file that is
// its holder's own is locked in the kernel, by an open file that processes inherit from each other: the kernel
// ends that when the last of them is gone, however it ended, and at once. So the lease ends then, and never before.

// bound is what the leases of a node are bound to.
type bound struct {
	locks *locks
	alive *os.File // nil: leases are by time
}

// holderBytes is where the bytes of holders begin, far behind all others.
const holderBytes = 1 << 62

// holderByte is the byte that is locked for a holder. Of two holders with the same one, by a chance of 1 in
// 2^62, each would seem to live as long as the other.
func holderByte(h node.Holder) int64 { return holderBytes + int64(h.Fingerprint()>>2) }

// open binds leases from now on to a file at a path that is open already, at a place.
func (b *bound) open(path string, at place) error {
	if b.alive != nil {
		return engine.Invalidf("filenode: it is bound already")
	}
	if err := canBind(); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !at.is(info) {
		err = engine.Misconfiguredf("the file was replaced by another while it was open; end all programs that use it before you change it")
	}
	if err != nil {
		f.Close()
		return err
	}
	b.alive = f
	return nil
}

// end ends the leases, also of processes that have inherited the file.
func (b *bound) end() {
	if b.alive != nil {
		b.locks.dropAll(int(b.alive.Fd()))
	}
}

// close is end when no operation runs any more, which could have begun another one since.
func (b *bound) close() {
	if b.end(); b.alive != nil {
		b.alive.Close()
	}
}

// keep locks the byte of a holder who was granted something: before that is written down, so that nobody
// takes it for one whose processes have ended.
func (b *bound) keep(h node.Holder) error { return b.locks.keep(int(b.alive.Fd()), holderByte(h)) }

// drop unlocks the byte of a holder who has released.
func (b *bound) drop(h node.Holder) {
	if b.alive != nil {
		b.locks.drop(int(b.alive.Fd()), holderByte(h))
	}
}

// lives reports whether a process of the holder of a bound lease lives.
func (b *bound) lives(h node.Holder) bool { return b.locks.kept(holderByte(h)) }
