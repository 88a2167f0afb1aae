//go:build linux || darwin || freebsd

package filenode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/engine"
)

// The header is the part of the file that has to survive a power failure. It has two copies, a page
// each; a write goes over the older one.

const (
	version = 1 // of the format

	// window is how far ahead the ceiling is written, an hour. Registers follow the wall clock in
	// microseconds, so a node waits for the disk once an hour. After a boot, registers go on above
	// the ceiling.
	window fence.Token = 3600e6
)

var (
	magic  = []byte("fenlock\n")
	sqlite = []byte("SQLite format 3\x00")
)

// header is what survives a boot.
type header struct {
	seq     uint64      // of the write; 0: none was written
	state   uint64      // begun, written or settled
	epoch   uint64      // of the rooms: it counts how often they began anew
	base    fence.Token // every register is at least this: no register of an earlier epoch was larger
	ceiling fence.Token // no register may be larger, before a larger ceiling is on the disk
	place   place       // where the file was when the epoch began
	boot    [64]byte    // in which boot that was
}

// The states of a header. A process that finds another one than settled was left behind by one that
// was killed, and goes on where that one ended.
const (
	begun   = 1 + iota // the rooms are not empty yet
	written            // the ceiling may not be on the disk yet, so it is not to be used
	settled            // it is on the disk
)

// place is what a file has that a copy of it does not have. What is not known is 0.
type place struct {
	device, inode uint64
	born          uint64 // ns since 1970: an inode is used again
}

// same reports whether two places are one, as far as is known.
func (p place) same(o place) bool {
	return p.device == o.device && p.inode == o.inode && (p.born == o.born || p.born == 0 || o.born == 0)
}

const (
	fields     = 8
	headerSize = 8 + 4 + 4 + fields*8 + 64
)

func (h header) bytes() []byte {
	b := make([]byte, page)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], version)
	for i, n := range h.numbers() {
		binary.LittleEndian.PutUint64(b[16+8*i:], *n)
	}
	copy(b[16+fields*8:], h.boot[:])
	binary.LittleEndian.PutUint32(b[12:], checksum(b))
	return b
}

// numbers are the fields in the order of the file.
func (h *header) numbers() [fields]*uint64 {
	return [...]*uint64{&h.seq, &h.state, &h.epoch, (*uint64)(&h.base), (*uint64)(&h.ceiling), &h.place.device,
		&h.place.inode, &h.place.born}
}

// checksum is that of a copy, without the place of the checksum.
func checksum(b []byte) uint32 {
	return sum(b[:12], b[16:headerSize])
}

// readHeader returns the newer copy of the header; its seq is 0 if the file is new. It refuses a
// file that is something else.
func readHeader(f io.ReaderAt) (newest header, err error) {
	both := make([]byte, 2*page)
	if _, err = f.ReadAt(both, 0); err != nil && err != io.EOF {
		return header{}, err
	}
	if bytes.HasPrefix(both, sqlite) {
		return header{}, engine.Misconfiguredf("it is a SQLite database, as earlier versions of fenlock made it; end all programs of these versions that use it, and choose another path or delete the file with its -wal and -shm")
	}
	ours, known := false, false
	for _, b := range [...][]byte{both[:page], both[page:]} {
		if !bytes.HasPrefix(b, magic) {
			continue
		}
		ours = true
		if v := binary.LittleEndian.Uint32(b[8:]); v > version {
			return header{}, engine.Misconfiguredf("a newer fenlock made it (its format is %d, and this version of fenlock knows %d); upgrade this program, or choose another path", v, version)
		}
		known = known || binary.LittleEndian.Uint32(b[8:]) == version
		if binary.LittleEndian.Uint32(b[12:]) != checksum(b) {
			continue // a process was killed while it wrote this copy, or the power failed
		}
		var h header
		for i, n := range h.numbers() {
			*n = binary.LittleEndian.Uint64(b[16+8*i:])
		}
		copy(h.boot[:], b[16+fields*8:])
		if h.seq > newest.seq {
			newest = h
		}
	}
	switch {
	case newest.seq > 0 && (newest.base > newest.ceiling || newest.ceiling > fence.MaxToken):
		return header{}, damaged("the header has a number that is no token")
	case newest.seq == 0 && known:
		return header{}, unreadable{damaged("its header cannot be read")}
	case newest.seq == 0 && ours:
		return header{}, damaged("its header cannot be read")
	case !ours && bytes.Count(both, []byte{0}) != len(both):
		return header{}, foreign()
	}
	return newest, nil
}

// headerFile is what a header is written to.
type headerFile interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
}

// put writes the header over its older copy.
func (h *header) put(f headerFile, state uint64) error {
	h.seq++
	h.state = state
	_, err := f.WriteAt(h.bytes(), int64(h.seq%2)*page)
	return err
}

// sync waits until the header is on the disk as it is. It is written again first: what a sync could
// not write, the kernel forgets, and the next sync succeeds.
func (h *header) sync(f headerFile) error {
	if h.seq > 0 {
		if _, err := f.WriteAt(h.bytes(), int64(h.seq%2)*page); err != nil {
			return err
		}
	}
	return f.Sync()
}

// settle has a ceiling, and waits until it is on the disk, and says so. A process that is killed
// before that leaves a ceiling that is not used. The copy that stays has to be on the disk before
// the other copy is written over.
func (h *header) settle(f headerFile, ceiling fence.Token) error {
	if err := h.sync(f); err != nil {
		return err
	}
	h.ceiling = ceiling
	return inOrder(func() error { return h.put(f, written) }, f.Sync, func() error { return h.put(f, settled) })
}

// begin makes the file new for this boot and place. What is in the rooms is void, because its
// holders ended with the boot, or because the file is a copy. Registers go on above the ceiling.
// The caller has the lock of the header.
func (h *header) begin(f headerFile, at place, boot [64]byte) error {
	if err := h.sync(f); err != nil {
		return err
	}
	h.base, h.place, h.boot, h.epoch = h.ceiling, at, boot, h.epoch+1
	// The header first: a process of the boot before must not find its rooms empty.
	return inOrder(func() error { return h.put(f, begun) }, func() error { return h.empty(f) })
}

// empty empties the rooms of a header that has begun.
func (h *header) empty(f headerFile) error {
	return inOrder(func() error { return h.sync(f) }, func() error { return f.Truncate(roomsAt) },
		func() error { return f.Truncate(roomsEnd) },
		func() error { return h.put(f, settled) })
}

// inOrder takes steps until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// syncFolder has the name of a new file on the disk, where this user may.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
