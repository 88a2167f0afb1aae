package transport

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
)

// expected is what a command is answered with.
type expected uint8

const (
	nothing expected = iota // no command was sent
	little
	many
	confirmation // of a subscription: a push, unless it is refused
)

// asked are the commands that were sent and not answered, the oldest first. It is
// safe for concurrent use: the library writes and reads on two goroutines.
type asked struct {
	mu      sync.Mutex
	waiting []expected
	head    int
	popped  uint64 // how many were answered
	resp2   bool   // the server knows no RESP3
}

func (a *asked) push(e expected) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.head > 64 && a.head*2 > len(a.waiting) {
		a.waiting = append(a.waiting[:0], a.waiting[a.head:]...)
		a.head = 0
	}
	if len(a.waiting)-a.head >= maxOutstanding {
		return errors.New("too many commands without a reply")
	}
	a.waiting = append(a.waiting, e)
	return nil
}

func (a *asked) first() expected {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.head == len(a.waiting) {
		return nothing
	}
	return a.waiting[a.head]
}

// answered returns how many were, and whether all of them.
func (a *asked) answered() (n uint64, all bool) {
	sent, n := a.count()
	return n, n == sent
}

// count returns how many were sent on the connection, and how many of those were answered.
func (a *asked) count() (sent, answered uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.popped + uint64(len(a.waiting)-a.head), a.popped
}

func (a *asked) pop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.head++
	a.popped++
	if a.head == len(a.waiting) {
		a.waiting, a.head = a.waiting[:0], 0
	}
}

// maxOutstanding is the number of commands without a reply. The library's ring and the
// slots keep it far lower.
const maxOutstanding = 1 << 12

// verb is a kind of command: what is read of its reply depends on it.
type verb uint8

const (
	other verb = iota
	hello
	subscribe
	long // its reply may be long
)

var verbs = map[string]verb{"HELLO": hello, "SUBSCRIBE": subscribe, "INFO": long, "HGETALL": long, "EXEC": long,
	"SCAN": long, "CONFIG": long, "ACL": long, "CLUSTER": long}

// requestScan follows what the library writes: arrays of strings.
type requestScan struct {
	asked  *asked
	kind   byte  // the first of a line, 0 before it
	number int64 // after it
	args   int64 // of the command, not begun yet
	nth    int   // argument of the command
	body   int64 // bytes of it to come, with the line's end
	word   []byte
	first  verb // what the command is, as far as that matters
}

func (s *requestScan) scan(p []byte) error {
	for len(p) > 0 {
		if s.body > 0 {
			n := min(int64(len(p)), s.body)
			if s.nth <= 2 && len(s.word) < 16 {
				s.word = append(s.word, p[:min(n, 16)]...)
			}
			p, s.body = p[n:], s.body-n
			if s.body == 0 {
				if err := s.argument(); err != nil {
					return err
				}
			}
			continue
		}
		// Nearly all of a line is digits.
		for s.kind != 0 && len(p) > 0 && p[0]-'0' <= 9 && s.number < 1<<40 {
			s.number = 10*s.number + int64(p[0]-'0')
			p = p[1:]
		}
		if len(p) == 0 {
			return nil
		}
		if err := s.add(p[0]); err != nil {
			return err
		}
		p = p[1:]
	}
	return nil
}

// add takes the next byte of a line.
func (s *requestScan) add(b byte) error {
	switch {
	case s.kind == 0 && (b == '*' || b == '$'):
		s.kind, s.number = b, 0
	case s.kind != 0 && b == '\r':
	case s.kind == '*' && b == '\n':
		s.kind, s.args, s.nth = 0, s.number, 0
	case s.kind == '$' && b == '\n':
		s.nth++
		s.kind, s.body, s.word = 0, s.number+2, s.word[:0]
	default:
		return fmt.Errorf("a request that is no array of strings was not sent (%q)", b)
	}
	return nil
}

// argument takes note of one that was written.
func (s *requestScan) argument() error {
	if s.nth <= 2 {
		word, _, _ := bytes.Cut(s.word[:min(len(s.word), 16)], []byte{'\r'})
		switch {
		case s.nth == 1:
			s.first = verbs[string(word)] // which makes no string
		case s.first == hello && string(word) == "2":
			s.asked.resp2 = true
		}
	}
	if int64(s.nth) < s.args {
		return nil
	}
	switch {
	case s.first == subscribe && s.asked.resp2:
		// Messages could not be told from replies, nor could a wrong one.
		return errors.New("the server does not speak RESP3, which notifications need")
	case s.first == subscribe:
		return s.asked.push(confirmation)
	case s.first == long, s.first == hello:
		return s.asked.push(many)
	}
	return s.asked.push(little)
}
