//go:build linux || darwin || freebsd

package filenode

import (
	"os"
	"sync"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// A lease that is bound to processes has no end by time. As long as it lasts, its holder's byte of
// the file is locked in the kernel, by an open file that processes inherit. When the last such
// process is gone, however it ended, the kernel unlocks the byte at once. So the lease ends then,
// and never before.

// bound is what the leases of a node are bound to.
type bound struct {
	locks *locks
	alive *os.File // nil: leases are by time

	mu    sync.Mutex
	kept  map[node.Holder]string // the holders that have a byte, and the waiter that each was
	chain map[string]bool        // the waiters that have a byte; see chain.go
	loose bool                   // no waiter gets one any more
}

// outlived are the files of nodes that were closed and whose leases stay, so that nothing closes
// these before the process ends.
var outlived struct {
	sync.Mutex
	files []*os.File
}

// holderBytes is where the bytes of holders begin, far behind all others.
const holderBytes = 1 << 62

// holderByte is the byte that is locked for a holder. Of two holders with the same one, by a chance
// of 1 in 2^62, each would seem to live as long as the other.
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
		err = engine.Misconfiguredf(
			"the file was replaced by another while it was open; end all programs that use it before you change it")
	}
	if err != nil {
		f.Close()
		return err
	}
	b.alive, b.kept, b.chain = f, make(map[node.Holder]string), make(map[string]bool)
	return nil
}

// close closes the file, unless there are leases that were not released. These stay for as long as
// the process, as those by time do for their time. No operation runs any more.
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

// keep locks the byte of a holder that was granted something. It does so before the grant is
// written down, so that no process takes the holder for one whose processes have ended. It may have
// been a waiter.
func (b *bound) keep(h node.Holder, waiter string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, has := b.kept[h]; has {
		return nil
	}
	err := b.locks.keep(int(b.alive.Fd()), holderByte(h))
	if err == nil {
		b.kept[h] = waiter
	}
	return err
}

// drop unlocks the byte of a holder who has let go, and the one that it had as a waiter.
func (b *bound) drop(h node.Holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if waiter, has := b.kept[h]; has {
		delete(b.kept, h)
		b.locks.drop(int(b.alive.Fd()), holderByte(h))
		b.part(waiter)
	}
}

// keeps reports whether this node has locked the byte of a holder.
func (b *bound) keeps(h node.Holder) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, has := b.kept[h]
	return has
}

// lives reports whether a process of the holder of a bound lease lives.
func (b *bound) lives(h node.Holder) bool { return b.locks.kept(holderByte(h)) }

// holderOf returns whose byte a waiter has: of the holder that the name is leased to while it is
// reserved for the waiter.
func holderOf(waiter string) node.Holder { return node.Reserved(waiter) }

// join locks the byte of a waiter of this node, and reports whether it is locked.
func (b *bound) join(waiter string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.chain[waiter] || b.loose {
		return b.chain[waiter]
	}
	if b.locks.keep(b.locks.fd, holderByte(holderOf(waiter))) != nil {
		return false
	}
	b.chain[waiter] = true
	return true
}

// part unlocks the byte of a waiter, with the mutex held.
func (b *bound) part(waiter string) {
	if b.chain[waiter] {
		delete(b.chain, waiter)
		b.locks.drop(b.locks.fd, holderByte(holderOf(waiter)))
	}
}

// leave has a waiter leave the chain.
func (b *bound) leave(waiter string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.part(waiter)
}

// loosen is for a link that does not hold: the kernel fails to tell of an end. The waiter leaves
// the chain, and no other one of this node enters it. It reports whether the waiter was in it.
func (b *bound) loosen(waiter string) (was bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, b.loose = b.chain[waiter], true
	b.part(waiter)
	return was
}

// chained reports whether a waiter has its byte: it lives, and hears of the end of what is before
// it.
func (b *bound) chained(waiter string) bool {
	b.mu.Lock()
	own := b.chain[waiter]
	b.mu.Unlock()
	// of what it has locked itself, a file says nothing
	return own || canBind() == nil && b.locks.kept(holderByte(holderOf(waiter)))
}

// binds reports whether leases are bound.
func (b *bound) binds() bool { return b.alive != nil }
