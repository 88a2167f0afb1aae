//go:build linux || darwin || freebsd

package filenode

import (
	"os"
	"sync"

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

	mu   sync.Mutex
	kept map[node.Holder]bool // who has a byte
}

// outlived are the files of nodes that were closed and whose leases stay, so that nothing closes these before
// the process ends.
var outlived struct {
	sync.Mutex
	files []*os.File
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
	b.alive, b.kept = f, make(map[node.Holder]bool)
	return nil
}

// close closes the file, unless there are leases that were not released: they stay for as long as the process, as those
// by time do for their time. No operation runs any more.
func (b *bound) close() {
	switch {
	case b.alive == nil:
	case len(b.kept) == 0:
		b.alive.Close()
	default:
		outlived.Lock()
		defer outlived.Unlock()
		outlived.files = append(outlived.files, b.alive)
	}
}

// keep locks the byte of a holder who was granted something: before that is written down, so that nobody
// takes it for one whose processes have ended.
func (b *bound) keep(h node.Holder) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.locks.keep(int(b.alive.Fd()), holderByte(h))
	if err == nil {
		b.kept[h] = true
	}
	return err
}

// drop unlocks the byte of a holder who has let go.
func (b *bound) drop(h node.Holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept[h] {
		delete(b.kept, h)
		b.locks.drop(int(b.alive.Fd()), holderByte(h))
	}
}

// lives reports whether a process of the holder of a bound lease lives.
func (b *bound) lives(h node.Holder) bool { return b.locks.kept(holderByte(h)) }
