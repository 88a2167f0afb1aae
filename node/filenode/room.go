//go:build linux || darwin || freebsd

package filenode

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// A room has the leases, queues and registers of 16 stripes. It has two copies; a write goes over
// the older copy. So a process that is killed in the middle of a write leaves the newer copy as it
// was. Rooms do not wait for the disk: they are void after a boot.

// room is a room in memory.
type room struct {
	rule.Store
	number int
	seq    uint64 // of the copy that was read; 0: none was ever written
	which  int    // of both copies
	level  int
	body   []byte // as it was read
}

// readRoom reads the newer copy of a room.
func readRoom(f io.ReaderAt, h *header, number int) (*room, error) {
	both := make([]byte, 2*page)
	if _, err := f.ReadAt(both, copyAt(0, number, 0)); err == io.EOF {
		return nil, damaged("it is too short")
	} else if err != nil {
		return nil, err
	}
	newest, torn := &room{number: number, which: 1}, 0
	order := [...]int{0, 1} // the newer first, so that the older one's body is not read
	if binary.LittleEndian.Uint64(both[page+4:]) > binary.LittleEndian.Uint64(both[4:]) {
		order = [...]int{1, 0}
	}
	for _, which := range order {
		b := both[which*page:][:page]
		r := &room{number: number, which: which, seq: binary.LittleEndian.Uint64(b[4:]), level: int(b[12])}
		length := int64(binary.LittleEndian.Uint32(b[16:]))
		switch {
		case r.seq == 0 && binary.LittleEndian.Uint32(b) == 0:
			continue // it was never written
		case binary.LittleEndian.Uint32(b) != sum(b[4:head]):
			torn++ // a process was killed while it wrote this
			continue
		case r.level >= len(sizes) || length > sizes[r.level]-head || binary.LittleEndian.Uint64(b[24:]) != h.epoch:
			return nil, gone{damaged(fmt.Sprintf("room %d is of another time", number))}
		case r.seq <= newest.seq:
			continue
		}
		if r.level == 0 {
			r.body = b[head:][:length]
		} else {
			r.body = make([]byte, length)
			if _, err := f.ReadAt(r.body, bodyAt(r.level, number, which)); err != nil && err != io.EOF {
				return nil, err
			}
		}
		if binary.LittleEndian.Uint32(b[20:]) == sum(r.body) {
			newest = r
		} else if torn++; binary.LittleEndian.Uint64(both[(1-which)*page+4:]) < r.seq {
			// The body is complete before its head is written, and only an older copy is written over.
			torn = 2
		}
	}
	if torn == 2 {
		return nil, damaged(fmt.Sprintf("room %d cannot be read", number))
	}
	if newest.seq == 0 { // or emptied since
		if now, err := readHeader(f); err != nil {
			return nil, err
		} else if now.epoch != h.epoch {
			return nil, gone{damaged("it was begun anew while it was open")}
		}
	}
	return newest, newest.decode(h.base)
}

// disk is what rooms are written to.
type disk interface {
	io.WriterAt
	// reserve has room on the disk for a part of the file, where the file system can tell.
	reserve(at, size int64) error
}

// write writes a room over its older copy, unless it is as it was read. If it fails, the room is as
// it was, or as it was to be: it is not known which.
func (r *room) write(d disk, h *header, now time.Duration) error {
	body := r.encode(h.base, now)
	if string(body) == string(r.body) || r.seq == 0 && string(body) == "\x00\x00\x00" {
		return nil
	}
	level := 0
	for int64(len(body)) > sizes[level]-head {
		if level++; level == len(sizes) {
			return node.NotSent(fmt.Errorf("too many leases and waiters for one file: %w", syscall.ENOSPC))
		}
	}
	if r.seq == 0 || level > r.level {
		// So that a disk that becomes full ends no lock: what is leased can be extended and released.
		if err := d.reserve(copyAt(level, r.number, 0), 2*sizes[level]); err != nil {
			return node.NotSent(err)
		}
	}
	which := 1 - r.which
	b := make([]byte, head)
	binary.LittleEndian.PutUint64(b[4:], r.seq+1)
	b[12] = byte(level)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[20:], sum(body))
	binary.LittleEndian.PutUint64(b[24:], h.epoch)
	binary.LittleEndian.PutUint32(b, sum(b[4:]))
	if _, err := d.WriteAt(body, bodyAt(level, r.number, which)); err != nil {
		return err
	}
	_, err := d.WriteAt(b, copyAt(0, r.number, which))
	return err
}

// encode returns the body of a room, without what has ended. Equal rooms have equal bodies.
func (r *room) encode(base fence.Token, now time.Duration) []byte {
	maps.DeleteFunc(r.Registers, func(_ int, t fence.Token) bool { return t <= base })
	maps.DeleteFunc(r.Leases, func(_ string, l rule.Lease) bool { return now >= l.Expires })
	maps.DeleteFunc(r.Queues, func(_ string, q rule.QueueRecord) bool { return now >= q.Expires || len(q.Waiters) == 0 })
	w := writer(make([]byte, 0, len(r.body)+256))
	w.number(uint64(len(r.Registers)))
	for _, stripe := range slices.Sorted(maps.Keys(r.Registers)) {
		w.number(uint64(stripe))
		w.number(uint64(r.Registers[stripe]))
	}
	w.number(uint64(len(r.Leases)))
	for _, name := range slices.Sorted(maps.Keys(r.Leases)) {
		l := r.Leases[name]
		w.text(name)
		w.text(string(l.Holder))
		w.number(uint64(l.Expires))
		w.number(uint64(l.Origin))
		w.number(uint64(l.Token))
	}
	w.number(uint64(len(r.Queues)))
	for _, name := range slices.Sorted(maps.Keys(r.Queues)) {
		q := r.Queues[name]
		w.text(name)
		w.number(uint64(q.Expires))
		w.number(uint64(len(q.Waiters)))
		for _, p := range q.Waiters {
			w.number(uint64(p.Stamp))
			w.text(p.Waiter)
		}
	}
	return w
}

// decode reads the body. Registers are at least base.
func (r *room) decode(base fence.Token) error {
	r.Registers, r.Leases, r.Queues = map[int]fence.Token{}, map[string]rule.Lease{}, map[string]rule.QueueRecord{}
	for stripe := r.number; stripe < node.Stripes; stripe += rooms {
		if base > 0 {
			r.Registers[stripe] = base
		}
	}
	if len(r.body) == 0 {
		return nil
	}
	b := newReader(r.body)
	for range b.count() {
		stripe, token := int(b.number(node.Stripes-1)), b.token()
		if stripe%rooms != r.number || token <= base {
			b.bad = true
		}
		r.Registers[stripe] = token
	}
	for range b.count() {
		name := b.text()
		r.Leases[name] = rule.Lease{Holder: node.Holder(b.text()), Expires: b.time(), Origin: b.token(), Token: b.token()}
		b.bad = b.bad || roomOf(name) != r.number
	}
	for range b.count() {
		name := b.text()
		q := rule.QueueRecord{Expires: b.time()}
		n := b.count()
		q.Waiters = make([]node.Place, 0, n)
		for range n {
			q.Waiters = append(q.Waiters, node.Place{Stamp: int64(b.number(1 << 53)), Waiter: b.text()})
		}
		r.Queues[name] = q
		b.bad = b.bad || roomOf(name) != r.number
	}
	if b.bad || len(b.rest) > 0 {
		return damaged(fmt.Sprintf("room %d has something else in it", r.number))
	}
	return nil
}
