package wire

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed is of a message that is not what the protocol says.
var ErrMalformed = errors.New("the server's message is malformed: is this a ZooKeeper server?")

func putInt(b []byte, v int32) []byte  { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func putLong(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func putBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func putString(b []byte, v string) []byte { return append(putInt(b, int32(len(v))), v...) }
func putBytes(b, v []byte) []byte         { return append(putInt(b, int32(len(v))), v...) }

// reader takes a message apart. After an error it returns zero values.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.rest) {
		r.err = ErrMalformed
		return nil
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) int() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) long() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) bool() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

// bytes reads a length and as many bytes. ZooKeeper writes -1 for none.
func (r *reader) bytes() []byte {
	n := r.int()
	if n == -1 || r.err != nil {
		return nil
	}
	return r.take(int(n))
}

func (r *reader) string() string { return string(r.bytes()) }

// count reads how many items follow, of which each has at least size bytes.
func (r *reader) count(size int) int {
	n := int(r.int())
	if n == -1 {
		return 0
	}
	if n < 0 || n > len(r.rest)/size {
		r.err = ErrMalformed
		return 0
	}
	return n
}
