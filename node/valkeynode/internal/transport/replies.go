package transport

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node/engine"
)

const (
	maxLine  = 4 << 10 // of a simple string, an error, a number
	maxDepth = 6       // of arrays in arrays

	// A reply to most commands is a number and a few short strings.
	maxBytes, maxElements = 16 << 10, 64
	// A few commands read more: all registers are 4096 fields and as many values.
	maxManyBytes, maxManyElements = 1 << 20, 3 * 8192
)

// replyScan follows what a server sends. A line that it takes is one that the library
// reads in the same way.
type replyScan struct {
	asked *asked
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

// scan checks what a server sent, and returns how much of it may be read. That is all but a line
// that is not complete, with which the next call has to begin.
func (s *replyScan) scan(p []byte) (checked int, err error) {
	for checked < len(p) {
		rest, n := p[checked:], 1
		switch {
		case s.body > 0:
			n = int(min(int64(len(rest)), s.body))
			if s.push && s.elements == 1 && len(s.word) < 16 {
				s.word = append(s.word, rest[:min(n, 16)]...)
			}
			s.body -= int64(n)
		case s.tail > 0:
			if rest[0] != "\n\r"[s.tail-1] {
				return 0, broken("a string is longer than it was to be")
			}
			if s.tail--; s.tail == 0 {
				err = s.ended()
			}
		default:
			var line []byte
			if line, err = completeLine(rest); err == nil {
				if line == nil {
					return checked, nil
				}
				n = len(line) + len("\r\n")
				err = s.take(line[0], line[1:])
			}
		}
		if err != nil {
			return 0, err
		}
		checked += n
	}
	return checked, nil
}

// kinds are the first bytes of the lines that a reply is made of. Others that RESP3
// has, no command of ours is answered with: attributes, and strings and arrays whose
// length is not known.
const kinds = "+-:,(_#$!=*~%>"

// completeLine returns the line with which p begins, without its end; nil if it is not
// complete. The error is that of a line that is none.
func completeLine(p []byte) ([]byte, error) {
	if strings.IndexByte(kinds, p[0]) < 0 {
		return nil, foreign(p)
	}
	line := p[:min(len(p), maxLine+len("\r\n"))]
	end := bytes.IndexByte(line, '\n')
	switch {
	case end < 0 && len(p) > maxLine+len("\r"):
		return nil, broken("a line is longer than %d bytes", maxLine)
	case end < 0:
		return nil, nil
	case line[end-1] != '\r':
		return nil, broken("a line ends without a carriage return")
	case bytes.IndexByte(line[:end-1], '\r') >= 0:
		return nil, broken("a carriage return is within a line")
	}
	return line[:end-1], nil
}

func broken(format string, args ...any) error {
	return fmt.Errorf("the server broke the protocol, so the connection was closed: %s", fmt.Sprintf(format, args...))
}

// tlsAlert begins what a server that wants TLS says to a client that does not.
const tlsAlert = 0x15

// foreign says what a server speaks whose replies do not begin like replies, or nil
// while that is not certain. Of what an HTTP server makes of a command, some take it for
// a request of HTTP/0.9, and answer with a page and no status.
func foreign(p []byte) error {
	if p[0] == tlsAlert {
		return engine.Misconfiguredf(wantsTLS)
	}
	for _, begins := range [...]string{"HTTP/", "<!doctype html", "<html"} {
		n := min(len(begins), len(p))
		switch {
		case !strings.EqualFold(string(p[:n]), begins[:n]):
		case n < len(begins):
			return nil
		default:
			return engine.Misconfiguredf("an HTTP server answers at this address")
		}
	}
	return broken("%q begins no reply", p[0])
}

// lengthOf returns the length that a line gives, -1 for a null of old. What is computed
// with it does not overflow.
func lengthOf(text []byte) (int64, error) {
	n, err := numberOf(text)
	if err != nil || n < -1 || n > math.MaxInt32 {
		return 0, broken("%.20q is no length", text)
	}
	return n, nil
}

func numberOf(text []byte) (int64, error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || text[0] == '+' {
		return 0, broken("%.20q is no number", text)
	}
	return n, nil
}

// begin begins a reply, or a message, with a line of this kind.
func (s *replyScan) begin(kind byte) error {
	s.begun, s.depth, s.bytes, s.elements, s.word = true, 0, 0, 0, s.word[:0]
	s.push, s.refused = kind == '>', kind == '-' || kind == '!'
	s.maxBytes, s.maxElements = maxBytes, maxElements
	first := s.asked.first()
	switch {
	case s.push:
	case first == nothing:
		return broken("a reply that nothing was asked for begins with %q", kind)
	case first == many:
		s.maxBytes, s.maxElements = maxManyBytes, maxManyElements
	case first == confirmation && !s.refused:
		return broken("a reply to a subscription begins with %q", kind)
	}
	return nil
}

// take takes a complete line: its first byte, and the others.
func (s *replyScan) take(kind byte, text []byte) error {
	if !s.begun {
		if err := s.begin(kind); err != nil {
			return err
		}
	}
	if err := s.count(int64(len(text))); err != nil {
		return err
	}
	if s.depth > 0 {
		if s.elements++; kind == '>' {
			return broken("a message within a reply")
		}
	}
	switch kind {
	case '+', '-', ',', '(':
		if s.depth == 0 && string(text) == "QUEUED" && s.asked.first() == confirmation {
			return broken("a subscription is answered by QUEUED")
		}
		if s.push && s.elements == 1 {
			s.word = append(s.word, text[:min(len(text), 16)]...)
		}
	case ':':
		if _, err := numberOf(text); err != nil {
			return err
		}
	case '_':
		if len(text) != 0 {
			return broken("a null has the text %.20q", text)
		}
	case '#':
		if string(text) != "t" && string(text) != "f" {
			return broken("%.20q is no boolean", text)
		}
	case '$', '!', '=':
		return s.takeString(kind, text)
	default:
		return s.takeArray(kind, text)
	}
	return s.ended()
}

func (s *replyScan) takeString(kind byte, text []byte) error {
	length, err := lengthOf(text)
	if err != nil {
		return err
	}
	if length < 0 {
		if kind != '$' {
			return broken("a string of the length -1")
		}
		return s.ended()
	}
	if kind == '!' && s.depth == 0 && s.asked.first() == confirmation {
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

func (s *replyScan) takeArray(kind byte, text []byte) error {
	length, err := lengthOf(text)
	if err != nil {
		return err
	}
	switch {
	case length < 0 && kind != '*':
		return broken("an array of the length -1")
	case length <= 0:
		return s.ended()
	case kind == '%':
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
			return broken("a subscription is confirmed that was not asked for")
		}
		s.asked.pop()
	case "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		return broken("%q is confirmed, which was not asked for", s.word)
	}
	return nil
}
