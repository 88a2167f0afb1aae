package rule

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// MaxReaders is how many can share a name on a node. Those beyond it wait.
const MaxReaders = 256

// readers are those who share a name: the lease of them all, which Entry.Holder has as text
// (node.SharedPrefix). So an engine stores it as it stores any lease; it lasts as long as the
// longest share. Some of them are reservations, for readers that were notified.
type readers struct {
	// epoch is the number that was promised to a reader last, since there have been any: those who
	// come get the same. 0: none was. Reservations keep none. One that is made while the node is
	// out would bring the number of before its loss into what the node promises after it.
	epoch fence.Token
	all   []reader // by holder
}

// reader is one of those who share a name.
type reader struct {
	holder  node.Holder
	expires time.Duration
	origin  fence.Token // as in Entry
	token   fence.Token // as in Entry
}

// readers returns the holders that share the name at now: none, if it is free. False if it is
// leased to one alone.
func (e *Entry) readers(now time.Duration) (s readers, shared bool) {
	switch {
	case !e.Leased(now):
		return readers{}, true
	case !e.Holder.Shared():
		return readers{}, false
	}
	first, rest, _ := strings.Cut(string(e.Holder[len(node.SharedPrefix):]), "\n")
	s.epoch = number[fence.Token](first)
	for line := range strings.Lines(rest) {
		expires, line, _ := strings.Cut(line, " ")
		origin, line, _ := strings.Cut(line, " ")
		token, holder, _ := strings.Cut(line, " ")
		r := reader{node.Holder(strings.TrimSuffix(holder, "\n")), number[time.Duration](expires),
			number[fence.Token](origin), number[fence.Token](token)}
		if now < r.expires {
			s.all = append(s.all, r)
		}
	}
	s.settle()
	return s, true
}

// settle ends the epoch if only reservations are left.
func (s *readers) settle() {
	if !s.promised() {
		s.epoch = 0
	}
}

// number reads what was written by share: what is none was changed by hand, and is 0.
func number[N ~int64 | ~uint64](text string) N {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0 // ParseInt has the largest for what is too large
	}
	return N(max(n, 0))
}

// share makes the lease that of the readers.
func (e *Entry) share(s readers) {
	e.Holder, e.Expires, e.Origin, e.Token = "", 0, 0, 0
	if len(s.all) == 0 {
		return
	}
	s.settle()
	b := append([]byte(node.SharedPrefix), strconv.FormatUint(uint64(s.epoch), 10)...)
	for _, r := range s.all {
		b = strconv.AppendInt(append(b, '\n'), int64(r.expires), 10)
		b = strconv.AppendUint(append(b, ' '), uint64(r.origin), 10)
		b = strconv.AppendUint(append(b, ' '), uint64(r.token), 10)
		b = append(append(b, ' '), r.holder...)
		e.Expires = max(e.Expires, r.expires)
	}
	e.Holder = node.Holder(b)
}

func (s *readers) find(h node.Holder) (at int, found bool) {
	return slices.BinarySearchFunc(s.all, h,
		func(r reader, h node.Holder) int { return strings.Compare(string(r.holder), string(h)) })
}

// of returns the reader with a holder, nil if there is none.
func (s *readers) of(h node.Holder) *reader {
	if at, found := s.find(h); found {
		return &s.all[at]
	}
	return nil
}

func (s *readers) add(r reader) {
	at, _ := s.find(r.holder)
	s.all = slices.Insert(s.all, at, r)
}

func (s *readers) remove(h node.Holder) bool {
	at, found := s.find(h)
	if found {
		s.all = slices.Delete(s.all, at, at+1)
	}
	return found
}

// promised reports whether a holder shares the name, beside reservations.
func (s *readers) promised() bool {
	return slices.ContainsFunc(s.all, func(r reader) bool { return !r.holder.Reserves() })
}

// agree reports whether a holder may be one of them: all have one of the same number of slots, or
// all have none. Reservations are no holder's yet.
func (s *readers) agree(h node.Holder) bool {
	slots := h.Slots()
	return !slices.ContainsFunc(s.all, func(r reader) bool { return !r.holder.Reserves() && r.holder.Slots() != slots })
}

// acquireShared leases the name to one more reader, if it is free or others share it, and no other
// waiter is first in the queue. Readers that come while others are there get the number that was
// promised to these: so they agree at once, and move nothing. A number is promised to one exclusive
// holder, or to readers without an exclusive holder between them.
func acquireShared(e *Entry, q Queue, now time.Duration, r node.Request) (a node.Answer, notify []string) {
	if e.Out {
		return node.Answer{Status: node.Rejoining}, nil
	}
	self := r.Place.Waiter
	s, shared := e.readers(now)
	called := shared && self != "" && s.remove(node.Reserved(self))
	if called {
		e.share(s)
	} else if shared && q.Head() != "" {
		enqueue(q, r.Place)
		notify = reserve(e, q, now, self, 0)
	}
	s, shared = e.readers(now)
	turn := called
	if !turn {
		head := q.Head()
		turn = head == "" || head == self
	}
	if !shared || !turn || len(s.all) >= MaxReaders || s.of(r.Holder) != nil || !s.agree(r.Holder) {
		return node.Answer{Status: node.Held}, notify
	}
	if s.epoch == 0 {
		e.Register = max(e.Register+1, r.Token)
		s.epoch = e.Register
	}
	s.add(reader{holder: r.Holder, expires: now + r.TTL.Truncate(time.Millisecond), origin: s.epoch})
	e.share(s)
	return node.Answer{Status: node.Granted, Register: s.epoch}, notify
}

// confirmShared is confirm for a reader. False if the holder is none.
//
// A confirm moves the epoch only where there is one. A network may execute a confirm twice, the
// second time after its holder, which had the name alone, lets others share it. An epoch made by
// that would be the holder's own token, and would be promised to the next reader.
func confirmShared(e *Entry, now time.Duration, r node.Request) (a node.Answer, is bool) {
	s, _ := e.readers(now)
	own := s.of(r.Holder)
	switch {
	case own == nil:
		return node.Answer{}, false
	case e.Register > r.Token:
		return node.Answer{Status: node.Outrun, Register: e.Register}, true
	}
	e.Register, own.token = r.Token, r.Token
	if s.epoch != 0 {
		s.epoch = r.Token
	}
	e.share(s)
	return node.Answer{Status: node.Granted, Register: r.Token}, true
}

// extendShared is extend for a reader. A holder that has the name alone shares it from then on.
func extendShared(e *Entry, now time.Duration, r node.Request) node.Answer {
	if e.Out {
		return node.Answer{Status: node.Rejoining}
	}
	s, shared := e.readers(now)
	switch {
	case e.leasedTo(r.Holder, now):
		s.all = []reader{{holder: r.Holder, origin: e.Origin, token: e.Token}}
	case !shared && !e.Holder.Reserves():
		return node.Answer{Status: node.Lost}
	case !s.agree(r.Holder):
		return node.Answer{Status: node.Lost}
	case s.of(r.Holder) == nil:
		s.add(reader{holder: r.Holder, origin: e.Register})
	}
	own := s.of(r.Holder)
	own.expires = now + r.TTL.Truncate(time.Millisecond)
	if r.OwnToken > 0 {
		own.token = r.OwnToken
	}
	origin := own.origin
	if r.Token > s.epoch {
		s.epoch = 0 // an acquire of before that comes late gets a number past the floor, as where the holder was exported
	}
	e.share(s)
	e.Register = max(e.Register, r.Token)
	return node.Answer{Status: node.Granted, Register: origin}
}

// leave removes what a holder shares of the name.
func (e *Entry) leave(h node.Holder, now time.Duration) bool {
	if !e.Holder.Shared() {
		return false
	}
	s, _ := e.readers(now)
	left := s.remove(h)
	if left {
		e.share(s)
	}
	return left
}

// sharedAt reports whether several share the name, or one that others may join.
func (e *Entry) sharedAt(now time.Duration) bool { return e.Leased(now) && e.Holder.Shared() }

// onlyReserved reports whether the name is reserved for readers only.
func (e *Entry) onlyReserved(now time.Duration) bool {
	if !e.sharedAt(now) {
		return false
	}
	s, _ := e.readers(now)
	return !s.promised()
}

// isReader reports whether a waiter wants to share: its number begins with 0.
func isReader(waiter string) bool {
	_, rest, _ := strings.Cut(waiter, ":")
	return strings.HasPrefix(rest, "0")
}
