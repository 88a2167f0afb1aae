package mysqlnode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// stripe is one row of fenlock_stripes: all that a node remembers of the names that share
// a register. It is read and written as a whole.
type stripe struct {
	number   int
	version  int64 // random: another one after each write, so that none comes back
	register fence.Token
	leases   []byte // as encodeLeases has them
	waiters  []byte // as encodeQueues has them
	notices  []byte // as encodeNotices has them
	turns    int64  // when the newest notice was written; 0 for none
}

// What is remembered of the waiters that were notified, for those who listen.
const (
	noticeLife  = 2 * time.Second // as long as a listener may take to look
	mostNotices = 64              // in one stripe; a waiter whose notice is missed asks by itself
)

// maxStripe bounds what is written to a row, in bytes, as a statement that is longer than
// the server's max_allowed_packet is refused: 16 MiB, by default, of hexadecimal digits.
const maxStripe = 4 << 20

// notice is that a waiter was notified.
type notice struct {
	at     time.Duration
	waiter string
}

// serve carries out a request on the row at now, and returns what the row has to be then.
// The names whose leases and queues have ended are left out.
func (s stripe) serve(r node.Request, now time.Duration, reachable func(waiter string) bool) (after stripe, a node.Answer, err error) {
	store := rule.Store{Registers: map[int]fence.Token{s.number: s.register}}
	if store.Leases, err = decodeLeases(s.leases); err != nil {
		return s, a, err
	}
	if store.Queues, err = decodeQueues(s.waiters); err != nil {
		return s, a, err
	}
	q := &queue{store.Begin(r.Name, now, reachable)}
	r.Next = 0 // waiters here look for reservations
	a, notify := rule.ServeShared(&q.Entry, q, now, r)
	q.Commit()
	after = s
	after.register = store.Registers[s.number]
	after.leases, after.waiters = encodeLeases(store.Leases), encodeQueues(store.Queues)
	if len(notify) == 0 && after.same(s) {
		return s, a, nil
	}
	// What has ended goes when something is written, and is no reason to write.
	maps.DeleteFunc(store.Leases, func(_ string, l rule.Lease) bool { return l.Expires <= now })
	maps.DeleteFunc(store.Queues, func(_ string, q rule.QueueRecord) bool { return q.Expires <= now })
	after.leases, after.waiters = encodeLeases(store.Leases), encodeQueues(store.Queues)
	if len(notify) > 0 {
		notices := slices.DeleteFunc(decodeNotices(s.notices), func(n notice) bool { return n.at < now-noticeLife })
		for _, waiter := range notify {
			notices = append(notices, notice{now, waiter})
		}
		notices = notices[max(0, len(notices)-max(mostNotices, len(notify))):]
		after.notices, after.turns = encodeNotices(notices), now.Microseconds()
	}
	if size := len(after.leases) + len(after.waiters); size > maxStripe {
		return s, node.Answer{}, fmt.Errorf("the stripe of the name has %d bytes of leases and waiters; at most %d are kept", size, maxStripe)
	}
	return after, a, nil
}

// same reports whether two rows say the same.
func (s stripe) same(other stripe) bool {
	return s.register == other.register && bytes.Equal(s.leases, other.leases) &&
		bytes.Equal(s.waiters, other.waiters) && bytes.Equal(s.notices, other.notices)
}

// queue is the waiter queue of a name during an operation.
type queue struct{ *rule.Operation }

// renewal is by how much a queue may expire early, so that not each of its waiters'
// questions is written.
const renewal = time.Second

// Renew implements rule.Queue.
func (q *queue) Renew() {
	expires := q.QueueExpires
	if q.Operation.Renew(); q.QueueExpires-expires <= renewal {
		q.QueueExpires = expires
	}
}

// The encoding: for each lease or queue, in the order of the names, strings with their
// length before them and numbers as varints. Times are microseconds.

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

// Notices are lines, so that a statement can look for a client in them.
func encodeNotices(notices []notice) []byte {
	var b strings.Builder
	for _, n := range notices {
		client, rest, _ := strings.Cut(n.waiter, ":")
		number, _, _ := strings.Cut(rest, ":") // the label has nothing to do here
		fmt.Fprintf(&b, "%d %s:%s\n", n.at.Microseconds(), client, number)
	}
	return []byte(b.String())
}

// decodeNotices leaves out what is none: at worst a waiter is not woken.
func decodeNotices(b []byte) (notices []notice) {
	for line := range strings.Lines(string(b)) {
		var at int64
		var waiter string
		if _, err := fmt.Sscanf(line, "%d %s\n", &at, &waiter); err == nil && rule.CheckPlace(node.Place{Waiter: waiter}) == nil {
			notices = append(notices, notice{time.Duration(at) * time.Microsecond, waiter})
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

func (d *decoder) text() string {
	n := d.number(uint64(len(d.rest)))
	if d.bad = d.bad || n > uint64(len(d.rest)); d.bad {
		return ""
	}
	text := string(d.rest[:n])
	d.rest = d.rest[n:]
	return text
}

// maxMicroseconds is the year 2200: a hundred more fit into a time.Duration.
const maxMicroseconds = 7_258_118_400_000_000

func (d *decoder) time() time.Duration {
	return time.Duration(d.number(maxMicroseconds)) * time.Microsecond
}

func (d *decoder) token() fence.Token { return fence.Token(d.number(uint64(fence.MaxToken))) }

var errDamaged = errors.New("a row of fenlock_stripes was changed by something that is not fenlock")

func (d *decoder) failed(what string) error {
	if d.bad {
		return fmt.Errorf("%w: %w: its %s cannot be read", node.ErrMisconfigured, errDamaged, what)
	}
	return nil
}
