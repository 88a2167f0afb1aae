package transport

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// framed is a connection whose replies are checked before the client library sees
// them. The library believes what a server says: a negative length, or one reply too
// many, panics, a large length takes the memory of the whole process, and it takes the
// bytes of a boolean or a null for what they should be. So what comes is bounded here,
// and what goes is counted: one bad server must not end the process that a lock is
// meant to protect.
//
// A line reaches the library when all of it is here and has been checked. Were it to
// come byte by byte, two parsers would have to agree on each byte of a line that is
// wrong; as it is, they only have to agree on lines that are right.
//
// Between them, the bounds keep what one server can make its client hold at once below
// 32 MiB (TestHostileServersHoldLittle): a few hundred short replies, or one long one
// for each caller who asks for such.
type framed struct {
	net.Conn
	explain func(error) error // says why the server has not said a word
	replied atomic.Bool
	asked   asked
	request requestScan
	reply   replyScan

	// What was received and not read yet: in[from:checked], and after that, up to
	// received, a line that is not complete.
	in                      [readBuffer]byte
	from, checked, received int
}

const (
	maxLine  = 4 << 10 // of a simple string, an error, a number
	maxDepth = 6       // of arrays in arrays

	// A reply to most commands is a number and a few short strings.
	maxBytes, maxElements = 8 << 10, 64
	// A few commands read more: all registers are 4096 fields and as many values.
	maxManyBytes, maxManyElements = 1 << 20, 3 * 8192

	// maxOutstanding is the number of commands without a reply. The library's ring
	// and the slots keep it far lower.
	maxOutstanding = 1 << 12
)

// The longest line has room in the buffer, with its kind and its end.
const _ = uint(readBuffer - (1 + maxLine + len("\r\n")))

// manyOf are the commands whose replies may be long.
var manyOf = map[string]bool{"INFO": true, "HGETALL": true, "EXEC": true, "SCAN": true, "HELLO": true, "CONFIG": true}

func newFramed(conn net.Conn, explain func(error) error) *framed {
	f := &framed{Conn: conn, explain: explain}
	f.request.asked, f.reply.asked = &f.asked, &f.asked
	return f
}

// Read implements net.Conn. What it returns has been checked.
func (f *framed) Read(p []byte) (int, error) {
	for f.from == f.checked {
		if err := f.receive(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.in[f.from:f.checked])
	f.from += n
	return n, nil
}

// receive waits for more, when all that was checked has been read. There is room for
// it: no line is as long as the buffer. An error that comes with bytes comes again
// without.
func (f *framed) receive() error {
	f.received = copy(f.in[:], f.in[f.checked:f.received])
	f.from, f.checked = 0, 0
	n, err := f.Conn.Read(f.in[f.received:])
	f.received += n
	if n > 0 {
		f.replied.Store(true)
		checked, bad := f.reply.scan(f.in[:f.received])
		if bad != nil {
			f.received = 0
			f.Conn.Close()
			return bad
		}
		f.checked = checked
		return nil
	}
	if err != nil && !f.replied.Load() {
		err = f.explain(err)
	}
	return err
}

// Write implements net.Conn.
func (f *framed) Write(p []byte) (int, error) {
	if err := f.request.scan(p); err != nil {
		f.Conn.Close()
		return 0, err
	}
	n, err := f.Conn.Write(p)
	if err != nil && !f.replied.Load() {
		err = f.explain(err)
	}
	return n, err
}

func broken(format string, args ...any) error {
	return fmt.Errorf("the server broke the protocol, so the connection was closed: %s", fmt.Sprintf(format, args...))
}

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
	resp2   bool // the server knows no RESP3
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

func (a *asked) pop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.head++
	if a.head == len(a.waiting) {
		a.waiting, a.head = a.waiting[:0], 0
	}
}

// requestScan follows what the library writes: arrays of strings.
type requestScan struct {
	asked  *asked
	kind   byte  // the first of a line, 0 before it
	number int64 // after it
	args   int64 // of the command, not begun yet
	nth    int   // argument of the command
	body   int64 // bytes of it to come, with the line's end
	word   []byte
	name   string
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
	case s.kind != 0 && b >= '0' && b <= '9' && s.number < 1<<40:
		s.number = 10*s.number + int64(b-'0')
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
	word, _, _ := strings.Cut(string(s.word[:min(len(s.word), 16)]), "\r")
	switch {
	case s.nth == 1:
		s.name = word
	case s.nth == 2 && s.name == "HELLO" && word == "2":
		s.asked.resp2 = true
	}
	if int64(s.nth) < s.args {
		return nil
	}
	switch {
	case s.name == "SUBSCRIBE" && s.asked.resp2:
		// Messages could not be told from replies, nor could a wrong one.
		return errors.New("the server does not speak RESP3, which notifications need")
	case s.name == "SUBSCRIBE":
		return s.asked.push(confirmation)
	case manyOf[s.name]:
		return s.asked.push(many)
	}
	return s.asked.push(little)
}
