package cas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Record is all that a node remembers of the names of one stripe. It is read and written as a
// whole: as one value by Bytes and ParseRecord, or in its parts, where a store has columns. The
// zero Record is that of a stripe that was never used.
type Record struct {
	Register fence.Token // the highest number that was ever promised in the stripe
	// Mark names the mark of admission that the leases were made under, for a store whose writes
	// cannot compare the mark itself; 0 otherwise.
	Mark uint64

	Leases  []byte        // by name, as encodeLeases has them
	Queues  []byte        // by name, as encodeQueues has them
	Notices []byte        // lines: a time in microseconds, a space and a node.Notice
	Told    time.Duration // when the newest notice was written, by the store's clock; 0 for none

	// Fresh are the notices that came with the operation that has made this record, for a store
	// that tells clients in the same step. They are not encoded apart.
	Fresh []string
	// Touched and TouchedBy are the name and the holder that the operation has leased it to, "" for
	// none. The lease may look as before. They are not encoded.
	Touched   string
	TouchedBy node.Holder
}

// ErrDamaged matches the error of a record that no fenlock has written.
var ErrDamaged = errors.New("a record was changed by something that is not fenlock")

// What is remembered of the waiters that were notified.
const (
	noticeLife  = 2 * time.Second // as long as a listener may take to look
	mostNotices = 64              // in one stripe; a waiter whose notice is missed asks by itself
)

// head begins each record, with the format's number. Another number is of another version of
// fenlock.
const (
	head   = "fenlock record "
	format = 1
)

// Bytes returns the record as one value. Its first line says what it is.
func (r Record) Bytes() []byte {
	b := strconv.AppendInt([]byte(head), format, 10)
	b = binary.AppendUvarint(append(b, '\n'), uint64(r.Register))
	b = binary.AppendUvarint(b, r.Mark)
	b = binary.AppendUvarint(b, uint64(r.Told.Microseconds()))
	for _, part := range [][]byte{r.Leases, r.Queues, r.Notices} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	return b
}

// ParseRecord reads what Bytes has written. The error says whether something else has written it,
// or another version of fenlock, and matches node.ErrMisconfigured. It keeps b.
func ParseRecord(b []byte) (Record, error) {
	text, err := headed(b, head, format)
	if err != nil {
		return Record{}, err
	}
	d := decoder{rest: text}
	r := Record{Register: d.token(), Mark: d.number(1<<64 - 1), Told: d.time()}
	for _, part := range []*[]byte{&r.Leases, &r.Queues, &r.Notices} {
		*part = d.bytes()
	}
	if len(d.rest) > 0 {
		d.bad = true
	}
	return r, d.failed("record")
}

// headed returns what follows the first line, which has to be the head and the format's number.
func headed(b []byte, head string, format int) ([]byte, error) {
	line, _, ended := bytes.Cut(b[:min(len(b), 64)], []byte("\n"))
	number, ours := bytes.CutPrefix(line, []byte(head))
	switch {
	case ours && ended && string(number) == strconv.Itoa(format):
		return b[len(line)+1:], nil
	case bytes.HasPrefix(line, []byte("fenlock ")):
		return nil, fmt.Errorf("%w: it has the format %.40q, and this program knows %s%d: use one version of fenlock",
			node.ErrMisconfigured, line, head, format)
	}
	return nil, fmt.Errorf("%w: it was written by something that is not fenlock, so that what fenlock had there is lost",
		node.ErrMisconfigured)
}

// Check reports whether a record can be read, for those who look at a whole store. The error
// matches node.ErrMisconfigured.
func (r Record) Check() error {
	if r.Register > node.MaxRegister {
		return fmt.Errorf("%w: %w: its register is %d", node.ErrMisconfigured, ErrDamaged, uint64(r.Register))
	}
	_, err := r.store(0)
	return err
}

// store decodes the record of a stripe.
func (r Record) store(stripe int) (s rule.Store, err error) {
	s.Registers = map[int]fence.Token{stripe: r.Register}
	if s.Leases, err = decodeLeases(r.Leases); err == nil {
		s.Queues, err = decodeQueues(r.Queues)
	}
	return s, err
}

// Each calls change for each lease, in the order of the names, and makes the lease what that
// returns. A zero Lease goes. An error says that the record cannot be read.
func (r *Record) Each(change func(name string, l rule.Lease) rule.Lease) error {
	leases, err := decodeLeases(r.Leases)
	if err != nil {
		return err
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(leases)) {
		l := change(name, leases[name])
		if changed = changed || l != leases[name]; l == (rule.Lease{}) {
			delete(leases, name)
		} else {
			leases[name] = l
		}
	}
	if changed {
		r.Leases = encodeLeases(leases)
	}
	return nil
}

// same reports whether two records of a stripe say the same.
func (r Record) same(other Record) bool {
	return r.Register == other.Register && bytes.Equal(r.Leases, other.Leases) &&
		bytes.Equal(r.Queues, other.Queues) && bytes.Equal(r.Notices, other.Notices)
}

// size is how many bytes grow with the names and waiters of the stripe.
func (r Record) size() int { return len(r.Leases) + len(r.Queues) + len(r.Notices) }

// The encoding: for each lease or queue, in the order of the names, strings with their length
// before them and numbers as varints. Times are microseconds.

func encodeLeases(leases map[string]rule.Lease) (b []byte) {
	for _, name := range slices.Sorted(maps.Keys(leases)) {
		l := leases[name]
		b = appendString(appendString(b, name), string(l.Holder))
		b = binary.AppendUvarint(b, uint64(l.Expires.Microseconds()))
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(l.Origin)), uint64(l.Token))
	}
	return b
}

func decodeLeases(b []byte) (map[string]rule.Lease, error) {
	leases := make(map[string]rule.Lease)
	d := decoder{rest: b}
	for !d.done() {
		name := d.text()
		leases[name] = rule.Lease{Holder: node.Holder(d.text()), Expires: d.time(), Origin: d.token(), Token: d.token()}
	}
	return leases, d.failed("leases")
}

func encodeQueues(queues map[string]rule.QueueRecord) (b []byte) {
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		q := queues[name]
		b = binary.AppendUvarint(appendString(b, name), uint64(q.Expires.Microseconds()))
		b = binary.AppendUvarint(b, uint64(len(q.Waiters)))
		for _, p := range q.Waiters {
			b = appendString(binary.AppendUvarint(b, uint64(p.Stamp)), p.Waiter)
		}
	}
	return b
}

func decodeQueues(b []byte) (map[string]rule.QueueRecord, error) {
	queues := make(map[string]rule.QueueRecord)
	d := decoder{rest: b}
	for !d.done() {
		name := d.text()
		q := rule.QueueRecord{Expires: d.time()}
		for n := d.number(rule.MaxQueue); n > 0 && !d.done(); n-- {
			q.Waiters = append(q.Waiters, node.Place{Stamp: int64(d.number(1 << 53)), Waiter: d.text()})
		}
		queues[name] = q
	}
	return queues, d.failed("waiters")
}

// notice is what a waiter was told, and when.
type notice struct {
	at   time.Duration
	text string // as node.Notice has it, without a label
}

// Notices are lines, so that a store can look for a client in them.
func encodeNotices(notices []notice) (b []byte) {
	for _, n := range notices {
		b = strconv.AppendInt(b, n.at.Microseconds(), 10)
		b = append(append(append(b, ' '), n.text...), '\n')
	}
	return b
}

// decodeNotices leaves out what is none: at worst a waiter is not woken.
func decodeNotices(b []byte) (notices []notice) {
	for line := range bytes.Lines(b) {
		number, text, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		at, err := strconv.ParseInt(number, 10, 64)
		n, is := node.ParseNotice(text)
		if err == nil && is && at >= 0 && at <= maxMicroseconds && rule.CheckPlace(node.Place{Waiter: n.Waiter}) == nil {
			notices = append(notices, notice{time.Duration(at) * time.Microsecond, text})
		}
	}
	return notices
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder reads what the functions above write. After an error it returns zeros.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) done() bool { return d.bad || len(d.rest) == 0 }

func (d *decoder) number(most uint64) uint64 {
	n, size := binary.Uvarint(d.rest)
	if d.bad = d.bad || size <= 0 || n > most; d.bad {
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) bytes() []byte {
	n := d.number(uint64(len(d.rest)))
	if d.bad = d.bad || n > uint64(len(d.rest)); d.bad || n == 0 {
		return nil
	}
	part := d.rest[:n:n]
	d.rest = d.rest[n:]
	return part
}

func (d *decoder) text() string { return string(d.bytes()) }

// maxMicroseconds is the year 2200: a hundred more fit into a time.Duration.
const maxMicroseconds = 7_258_118_400_000_000

func (d *decoder) time() time.Duration {
	return time.Duration(d.number(maxMicroseconds)) * time.Microsecond
}

func (d *decoder) token() fence.Token { return fence.Token(d.number(uint64(fence.MaxToken))) }

func (d *decoder) failed(what string) error {
	if d.bad {
		return orDamaged(nil, what)
	}
	return nil
}

// orDamaged returns an error, or that of something that cannot be read.
func orDamaged(err error, what string) error {
	if err == nil {
		err = fmt.Errorf("%w: %w: its %s cannot be read", node.ErrMisconfigured, ErrDamaged, what)
	}
	return err
}
