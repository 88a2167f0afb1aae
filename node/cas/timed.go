package cas

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Timed is the record of a stripe with a clock of its own, for a store that has none: see Clock. It
// is text but for the record, for people who look with the store's own tools.
type Timed struct {
	Record
	Memory string        // the name of the memory under which the leases and queues count
	At     time.Duration // the stripe's clock, when it was written
	There  bool          // it was written at all

	by []Writer // of each part of a lease, in order
}

// Part is what one holder has of a lease: the lease, unless several share it.
type Part struct {
	Name   string
	Holder node.Holder
}

// Writer is who has written a part, and when: each extension makes it another one. So a client that
// watches it sees each, whatever it does to the end.
type Writer struct {
	Session string        // when that has ended, the part is over
	At      time.Duration // the stripe's clock: no two writes of a stripe have the same
}

// Written is a part of a lease as a write has left it.
type Written struct {
	Part
	Writer
	Ends time.Duration // by the stripe's clock
}

// NewTimed is the record of a stripe that was never written. Any number will do for its clock that
// is far from where times end.
func NewTimed(now time.Time) Timed {
	return Timed{At: time.Duration(min(max(now.UnixMicro(), 0), maxMicroseconds/2)) * time.Microsecond}
}

// Parts lists the parts of all leases.
func (z Timed) Parts() (all []Written, err error) {
	err = z.Record.Each(func(name string, l rule.Lease) rule.Lease {
		return l.Each(func(h node.Holder, ends time.Duration) bool {
			w := Written{Part: Part{name, h}, Ends: ends}
			if len(all) < len(z.by) {
				w.Writer = z.by[len(all)]
			}
			all = append(all, w)
			return true
		})
	})
	return all, err
}

// Next returns the record that is written over this one, decided on when the stripe's clock showed
// now, and which parts of leases it changes. These belong to what session returns for each.
func (z Timed) Next(r Record, memory string, now time.Duration, session func(Written) string) (next Timed,
	changed []Written, err error) {
	next = Timed{Record: r, Memory: memory, There: true, At: max(now.Truncate(time.Microsecond), z.At+time.Microsecond)}
	next.Notices, next.Told = nil, 0 // the store has told them
	was, err := z.Parts()
	if err != nil {
		return next, nil, err
	}
	before := make(map[Part]Written)
	for _, w := range was {
		before[w.Part] = w
	}
	all, err := next.Parts()
	for _, w := range all {
		old, is := before[w.Part]
		if w.Writer = old.Writer; !is || old.Ends != w.Ends || w.Part == (Part{r.Touched, r.TouchedBy}) {
			w.Writer = Writer{session(w), next.At}
			changed = append(changed, w)
		}
		next.by = append(next.by, w.Writer)
	}
	return next, changed, err
}

// Without returns what of a record counts under another memory: the register, and the clock.
func (z Timed) Without(memory string) Timed {
	z.Record, z.Memory, z.by = Record{Register: z.Register}, memory, nil
	return z
}

// Raised returns the record with a register that is raised to a token. Leases stay as they are.
func (z Timed) Raised(token fence.Token) Timed {
	z.Register, z.At, z.There = token, z.At+time.Microsecond, true
	return z
}

// drop removes the parts of leases that are over.
func drop(r *Record, over map[Part]bool) error {
	return r.Each(func(name string, l rule.Lease) rule.Lease {
		return l.Each(func(h node.Holder, _ time.Duration) bool { return !over[Part{name, h}] })
	})
}

// The head of a Timed, with the number of its format.
const (
	timedHead   = "fenlock stripe "
	timedFormat = 2
)

// Text returns the record as one value.
func (z Timed) Text() []byte {
	b := fmt.Appendf(nil, "%s%d\nmemory %s\nat %d\nparts %d\n", timedHead, timedFormat, strconv.Quote(z.Memory),
		z.At.Microseconds(), len(z.by))
	for _, w := range z.by {
		b = fmt.Appendf(b, "by %s %d\n", w.Session, w.At.Microseconds())
	}
	return append(b, z.Record.Bytes()...)
}

// ParseTimed reads what Text has written. Its error is as that of ParseRecord.
func ParseTimed(text []byte) (z Timed, err error) {
	rest, err := headed(text, timedHead, timedFormat)
	if err != nil {
		return z, err
	}
	bad := false
	field := func(name string) string {
		line, after, is := bytes.Cut(rest, []byte("\n"))
		value, named := strings.CutPrefix(string(line), name+" ")
		bad, rest = bad || !is || !named, after
		return value
	}
	number := func(text string) time.Duration {
		n, err := strconv.ParseUint(text, 10, 63)
		bad = bad || err != nil || n > maxMicroseconds
		return time.Duration(n) * time.Microsecond
	}
	z.There = true
	var unquoted error
	z.Memory, unquoted = strconv.Unquote(field("memory"))
	bad = bad || unquoted != nil
	z.At = number(field("at"))
	for n := number(field("parts")) / time.Microsecond; n > 0 && !bad; n-- {
		session, at, _ := strings.Cut(field("by"), " ")
		bad = bad || session == ""
		z.by = append(z.by, Writer{session, number(at)})
	}
	if !bad {
		z.Record, err = ParseRecord(rest)
	}
	if bad || err != nil {
		return z, orDamaged(err, "stripe")
	}
	parts, err := z.Parts()
	if err != nil || len(parts) != len(z.by) {
		return z, orDamaged(err, "stripe")
	}
	return z, nil
}
