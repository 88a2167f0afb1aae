package transport

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fenlock/fenlock/node/valkeynode/internal/command"
)

// framed is a connection whose replies are checked before the client library sees
// them. The library believes what a server says of lengths: a negative one, or one
// reply too many, panics, and a large one takes the memory of the whole process. So
// what comes is bounded here, and what goes is counted: one bad server must not end
// the process that a lock is meant to protect.
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

// manyOf are the commands whose replies may be long.
var manyOf = map[string]bool{"INFO": true, "HGETALL": true, "EXEC": true, "SCAN": true, "HELLO": true, "CONFIG": true}

func newFramed(conn net.Conn, explain func(error) error) *framed {
	f := &framed{Conn: conn, explain: explain}
	f.request.asked, f.reply.asked = &f.asked, &f.asked
	return f
}

// Read implements net.Conn. What it returns has been checked up to its last byte, and
// the library looks at nothing else: a length counts when its line is complete.
func (f *framed) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if n > 0 && !f.replied.Load() {
		f.replied.Store(true)
	}
	if err != nil && !f.replied.Load() {
		err = f.explain(err)
	}
	if bad := f.reply.scan(p[:n]); bad != nil {
		f.Conn.Close()
		return 0, bad
	}
	return n, err
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

// header reads a line of one of our commands or of a reply: its first byte, and a
// number of up to ten digits where one follows.
type header struct {
	kind     byte
	length   int // of the text so far
	number   int64
	negative bool
	bad      bool // no number
	text     [16]byte
	cr       bool
}

// add takes the next byte, and reports whether the line is complete.
func (h *header) add(b byte) (done bool, err error) {
	switch {
	case h.kind == 0:
		h.kind = b
		return false, nil
	case h.cr:
		if b != '\n' {
			return false, broken("a line ends with %q", b)
		}
		return true, nil
	case b == '\r':
		h.cr = true
		return false, nil
	case b == '\n':
		return false, broken("a line ends without a carriage return")
	}
	if h.length < len(h.text) {
		h.text[h.length] = b
	}
	switch {
	case b == '-' && h.length == 0:
		h.negative = true
	case b < '0' || b > '9' || h.length > 10:
		h.bad = true
	default:
		h.number = 10*h.number + int64(b-'0')
	}
	if h.length++; h.length > maxLine {
		return false, broken("a line is longer than %d bytes", maxLine)
	}
	return false, nil
}

// lengthOf returns the length that the line gives, -1 for a null of old.
func (h *header) lengthOf() (int64, error) {
	digits := h.length
	if h.negative {
		digits--
	}
	if h.bad || digits == 0 || h.negative && h.number != 1 {
		return 0, broken("%q is no length", h.string())
	}
	if h.negative {
		return -1, nil
	}
	return h.number, nil
}

func (h *header) string() string { return string(h.text[:min(h.length, len(h.text))]) }

// requestScan follows what the library writes: arrays of strings.
type requestScan struct {
	asked *asked
	line  header
	args  int64 // of the command, not begun yet
	nth   int   // argument of the command
	body  int64 // bytes of it to come, with the line's end
	word  []byte
	name  string
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
		done, err := s.line.add(p[0])
		p = p[1:]
		if err != nil {
			return err
		}
		if !done {
			continue
		}
		number, err := s.line.lengthOf()
		kind := s.line.kind
		s.line = header{}
		switch {
		case err != nil:
			return err
		case kind == '*':
			s.args, s.nth = number, 0
		case kind == '$':
			s.nth++
			s.body, s.word = number+2, s.word[:0]
		}
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

// replyScan follows what a server sends.
type replyScan struct {
	asked *asked
	line  header
	body  int64           // bytes of a string to come
	tail  int             // bytes of its line's end to come
	open  [maxDepth]int64 // elements to come, of each array that is open
	depth int
	begun bool // a reply is

	push        bool
	refused     bool // it is an error
	bytes       int64
	elements    int64
	maxBytes    int64
	maxElements int64
	word        []byte // the first string of a push
}

func (s *replyScan) scan(p []byte) error {
	for len(p) > 0 {
		switch {
		case s.body > 0:
			n := min(int64(len(p)), s.body)
			if s.push && s.elements == 1 && len(s.word) < 16 {
				s.word = append(s.word, p[:min(n, 16)]...)
			}
			p, s.body = p[n:], s.body-n
			continue
		case s.tail > 0:
			if p[0] != "\n\r"[s.tail-1] {
				return broken("a string is longer than it was to be")
			}
			p = p[1:]
			if s.tail--; s.tail == 0 {
				if err := s.ended(); err != nil {
					return err
				}
			}
			continue
		}
		done, err := s.line.add(p[0])
		p = p[1:]
		if err == nil && s.line.kind != 0 && !s.begun {
			err = s.begin()
		}
		if err == nil && s.line.kind == tlsAlert {
			err = notOurs(&s.line)
		}
		if err == nil && done {
			line := s.line
			s.line = header{}
			err = s.take(&line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin begins a reply, or a message.
func (s *replyScan) begin() error {
	s.begun, s.depth, s.bytes, s.elements, s.word = true, 0, 0, 0, s.word[:0]
	s.push, s.refused = s.line.kind == '>', s.line.kind == '-' || s.line.kind == '!'
	s.maxBytes, s.maxElements = maxBytes, maxElements
	first := s.asked.first()
	switch {
	case s.push:
	case first == nothing:
		return broken("a reply that nothing was asked for begins with %q", s.line.kind)
	case first == many:
		s.maxBytes, s.maxElements = maxManyBytes, maxManyElements
	case first == confirmation && !s.refused:
		return broken("a reply to a subscription begins with %q", s.line.kind)
	}
	return nil
}

// take takes a complete line.
func (s *replyScan) take(line *header) error {
	if err := s.count(int64(line.length)); err != nil {
		return err
	}
	if s.depth > 0 {
		if s.elements++; line.kind == '>' {
			return broken("a message within a reply")
		}
	}
	switch line.kind {
	case '+', '-', ',', '(':
		if s.depth == 0 && line.string() == "QUEUED" && s.asked.first() == confirmation {
			return broken("a subscription is answered by QUEUED")
		}
		if s.push && s.elements == 1 {
			s.word = append(s.word, line.string()...)
		}
	case ':':
		if line.bad && line.length <= 10 || line.length == 0 {
			return broken("%q is no number", line.string())
		}
	case '_':
		if line.length != 0 {
			return broken("a null has the text %q", line.string())
		}
	case '#':
		if line.length != 1 {
			return broken("%q is no boolean", line.string())
		}
	case '$', '!', '=':
		return s.takeString(line)
	case '*', '~', '%', '>':
		return s.takeArray(line)
	default:
		return notOurs(line)
	}
	return s.ended()
}

// tlsAlert begins what a server that wants TLS says to a client that does not.
const tlsAlert = 0x15

// notOurs says what a server speaks whose replies do not begin like replies.
func notOurs(line *header) error {
	switch {
	case line.kind == tlsAlert:
		return command.Misconfigured("the server wants TLS: the URL's scheme is valkeys:// or rediss://")
	case line.kind == 'H' && strings.HasPrefix(line.string(), "TTP/"):
		return command.Misconfigured("an HTTP server answers at this address")
	}
	return broken("%q begins no reply", line.kind)
}

func (s *replyScan) takeString(line *header) error {
	length, err := line.lengthOf()
	if err != nil {
		return err
	}
	if length < 0 {
		if line.kind != '$' {
			return broken("a string of the length -1")
		}
		return s.ended()
	}
	if line.kind == '!' && s.depth == 0 && s.asked.first() == confirmation {
		return broken("a subscription is answered by a long error")
	}
	s.body, s.tail = length, 2
	return s.count(length)
}

func (s *replyScan) count(bytes int64) error {
	if s.bytes += bytes; s.bytes > s.maxBytes {
		return broken("a reply has more than %d bytes", s.maxBytes)
	}
	return nil
}

func (s *replyScan) takeArray(line *header) error {
	length, err := line.lengthOf()
	if err != nil {
		return err
	}
	switch {
	case length < 0 && line.kind != '*':
		return broken("an array of the length -1")
	case length <= 0:
		return s.ended()
	case line.kind == '%':
		length *= 2
	}
	open := length
	for _, more := range s.open[:s.depth] {
		open += more
	}
	switch {
	case s.depth == maxDepth:
		return broken("arrays within arrays, more than %d", maxDepth)
	case length > s.maxElements || s.elements+open > s.maxElements:
		return broken("a reply has more than %d elements", s.maxElements)
	}
	s.open[s.depth] = length
	s.depth++
	return nil
}

// ended ends an element, and what ends with it.
func (s *replyScan) ended() error {
	for s.depth > 0 {
		if s.open[s.depth-1]--; s.open[s.depth-1] > 0 {
			return nil
		}
		s.depth--
	}
	s.begun = false
	if !s.push {
		s.asked.pop()
		return nil
	}
	// As the library compares them: what it takes for a message must be one here.
	switch string(s.word) {
	case "subscribe":
		if s.asked.first() != confirmation || s.elements != 3 {
			return broken("a subscription is confirmed that nobody asked for")
		}
		s.asked.pop()
	case "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		return broken("%q is confirmed, which nobody asked for", s.word)
	}
	return nil
}
