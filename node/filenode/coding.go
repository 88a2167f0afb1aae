package filenode

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// writer writes numbers and texts one after the other.
type writer []byte

func (w *writer) number(n uint64) { *w = binary.AppendUvarint(*w, n) }

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	*w = append(*w, s...)
}

// reader reads what a writer wrote. After something that no writer writes it is bad, and reads
// zeros. Texts are parts of the whole: a queue may have hundreds.
type reader struct {
	whole string
	rest  []byte // what is still to be read
	bad   bool
}

func newReader(b []byte) *reader { return &reader{whole: string(b), rest: b} }

func (r *reader) number(most uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	if r.bad = r.bad || size <= 0 || n > most; r.bad {
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) token() fence.Token  { return fence.Token(r.number(uint64(fence.MaxToken))) }
func (r *reader) time() time.Duration { return time.Duration(r.number(math.MaxInt64)) }

// count reads how many things follow. Each takes a byte at least.
func (r *reader) count() int { return int(r.number(uint64(len(r.rest)))) }

func (r *reader) text() string {
	n := r.number(uint64(len(r.rest)))
	if n > uint64(len(r.rest)) {
		r.bad = true
	}
	if r.bad {
		return ""
	}
	s := r.whole[len(r.whole)-len(r.rest):][:n]
	r.rest = r.rest[n:]
	return s
}
