//go:build linux || darwin || freebsd

package filenode

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// file is what was opened.
type file struct {
	medium
	wrap   func(*os.File) medium // nil: the medium is the file itself
	path   string                // absolute
	real   string                // without links: the folder of the pipes is beside it
	place  place
	header header // as it was opened; rooms are of its epoch
	locks  locks

	locking atomic.Bool // while it is opened: it waits for a lock of another process

	raising sync.Mutex
	ceiling atomic.Uint64 // that is on the disk, as far as this node knows
}

// medium is an *os.File, and in tests a disk that forgets what was not synced.
type medium interface {
	io.ReaderAt
	headerFile
	Stat() (os.FileInfo, error)
	Fd() uintptr
	Close() error
}

// open opens the file, makes it if it is missing, and begins it anew if it is of another boot or a
// copy.
func (f *file) open(boot string) error {
	// The file of another user in a folder like /tmp may be opened, and not with O_CREATE.
	opened, err := os.OpenFile(f.path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		opened, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s does not exist; make it, or correct the path: %w", filepath.Dir(f.path), err)
	}
	if err != nil {
		return err
	}
	if f.medium = opened; f.wrap != nil {
		f.medium = f.wrap(opened)
	}
	if f.real, err = filepath.EvalSymlinks(f.path); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return engine.Misconfiguredf("it is not a regular file")
	}
	if kind, _, _ := filesystem(f.real); network[kind] {
		return engine.Misconfiguredf("it is on a network file system (%s), where machines do not see each other's locks, or too late; use a file on a disk of this machine, or, for several machines, three Valkey servers", kind)
	}
	f.place, f.locks.fd = placeOf(info, opened), int(f.Fd())
	var name [64]byte
	if copy(name[:], boot) < len(boot) {
		return fmt.Errorf("the name of this boot, %q, is too long", boot)
	}
	// Without a lock first, as nearly always the file is what this process needs. If another boot
	// takes it in between, the rooms are not those of this header, which each operation notices.
	if f.header, err = readHeader(f); err == nil && f.here(name) && f.header.state != begun {
		return f.enter()
	}
	f.locking.Store(true)
	if err = f.locks.lock(headerByte); err != nil {
		return err
	}
	f.locking.Store(false)
	defer f.locks.unlock(headerByte)
	f.header, err = readHeader(f)
	if cut := (unreadable{}); errors.As(err, &cut) && info.Size() <= roomsAt {
		err = nil // the first header: rooms are made when it is on the disk
	}
	if err != nil {
		return err
	}
	switch {
	case f.header.seq == 0:
		err = f.first(name)
	case !f.here(name):
		err = f.begin(name)
	case f.header.state == begun:
		err = f.header.empty(f)
	}
	if err != nil {
		return err
	}
	return f.enter()
}

// enter tells other nodes that the file is open, and waits for one that takes the file anew.
func (f *file) enter() error {
	f.locking.Store(true)
	defer f.locking.Store(false)
	return f.locks.enter()
}

// network are the file systems whose locks are those of another machine, or of no use.
var network = map[string]bool{"nfs": true, "smbfs": true, "smb": true, "cifs": true, "smb2": true, "afs": true,
	"ceph": true, "ocfs2": true, "webdav": true}

// first begins a file that has no header, if it is new.
func (f *file) first(boot [64]byte) error {
	if info, err := f.Stat(); err != nil {
		return err
	} else if info.Size() > roomsAt {
		return foreign()
	}
	if err := syncFolder(filepath.Dir(f.real)); err != nil {
		return err
	}
	return f.begin(boot)
}

// here reports whether the rooms are those of this boot and place.
func (f *file) here(boot [64]byte) bool {
	return f.header.seq > 0 && f.header.boot == boot && f.header.place.same(f.place)
}

// begin makes the file new for this boot and place, unless it is in use in another one.
func (f *file) begin(boot [64]byte) error {
	alone, err := f.locks.alone()
	if err != nil {
		return err
	}
	if !alone {
		return engine.Misconfiguredf("a process has it open that lives in another boot, or finds it on another device (a container or a virtual machine of another kind?); they would not see each other's locks: end it, or use another file")
	}
	return f.header.begin(f, f.place, boot)
}

// raise has the ceiling of the registers at need at least. The caller has the lock of a room.
func (f *file) raise(need fence.Token) error {
	if uint64(need) <= f.ceiling.Load() {
		return nil
	}
	if need > fence.MaxToken {
		return node.NotSent(errors.New(
			"the tokens of this name are used up: its register was set by hand to the largest there is; use another name"))
	}
	f.raising.Lock() // the kernel's locks are between nodes
	defer f.raising.Unlock()
	if err := f.locks.lock(headerByte); err != nil {
		return err
	}
	defer f.locks.unlock(headerByte)
	h, err := readHeader(f)
	switch {
	case err != nil:
	case h.epoch != f.header.epoch:
		err = gone{damaged("it was begun anew while it was open")}
	case need > h.ceiling:
		err = h.settle(f, min(need+window, max(need, node.MaxRegister)))
	case h.state != settled:
		err = h.settle(f, h.ceiling)
	}
	if err == nil {
		f.ceiling.Store(uint64(h.ceiling))
	}
	return err
}

// unchanged returns an error if the file at the path is not the one that was opened, or was cut
// off. Those who open the path now get another file, and their leases are not in ours.
func (f *file) unchanged() error {
	now, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gone{engine.Misconfiguredf(
			"the file was deleted or moved while it was open; end all programs that use it before you change it")}
	case err != nil:
		return err
	case !f.place.is(now):
		return gone{engine.Misconfiguredf(
			"the file was replaced by another while it was open; end all programs that use it before you change it")}
	case now.Size() < roomsEnd:
		return gone{damaged("it is too short")}
	}
	return nil
}

// placeOf returns where an open file is.
func placeOf(info os.FileInfo, f *os.File) place {
	s := info.Sys().(*syscall.Stat_t)
	return place{device: device(s), inode: s.Ino, born: born(f)}
}

// is reports whether info is of the file that is open.
func (p place) is(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && device(s) == p.device && s.Ino == p.inode
}

// reserve implements disk.
func (f *file) reserve(at, size int64) error { return reserve(f.Fd(), at, size) }
