package goredisnode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node/respnode/resp"
)

const (
	maxDepth = 6 // of lists in lists

	// A reply to most commands is a number and a few short strings.
	maxBytes, maxElements = 16 << 10, 64
	// A few commands read more: all registers are 4096 fields and as many values.
	maxManyBytes, maxManyElements = 1 << 20, 3 * 8192
)

// long are the commands whose replies may be long.
var long = map[string]bool{"INFO": true, "HGETALL": true, "EXEC": true, "SCAN": true, "CONFIG": true, "ACL": true,
	"CLUSTER": true}

// reader makes a Reply of what a server sends. The client's own readers believe the lengths that a
// server gives; this one is told of each before anything is made of it. The client writes a reply
// to it as it comes: each line, its end, and the bytes of strings. An error has the client give up
// the connection.
type reader struct {
	batch *batch
	last  bool // of the batch
	long  bool

	expects  part
	next     part // after the end of the line
	kind     byte // of the string that is to come
	body     []byte
	left     int // bytes of it, with its end
	open     []opened
	bytes    int
	elements int

	reply resp.Reply
	done  bool
}

type part uint8

const (
	line part = iota
	lineEnd
	body
)

// opened is a list whose elements are not all there.
type opened struct {
	values []resp.Reply
	left   int
}

// batch is what the commands have in common that are sent together.
type batch struct {
	elsewhere bool // the connection leads to a server that cannot be a node any more
}

// errElsewhere has the client give up a connection that leads to a replica. The old primary is none
// now, and the same address may lead to the new primary.
var errElsewhere = errors.New("the connection leads to a replica, and is made anew")

func broken(format string, args ...any) error {
	return fmt.Errorf("the server broke the protocol, so the connection was closed: %s", fmt.Sprintf(format, args...))
}

// Write implements io.Writer.
func (r *reader) Write(p []byte) (int, error) {
	var err error
	switch {
	case r.expects == line && r.done:
		err = broken("a reply goes on after its end")
	case r.expects == line:
		err = r.takeLine(string(p))
	case r.expects == lineEnd:
		if r.expects = r.next; r.next == line {
			err = r.settle()
		}
	default:
		if r.body = append(r.body, p...); len(r.body) > r.left {
			err = broken("a string is longer than it was to be")
		} else if len(r.body) == r.left {
			r.expects = line
			text := string(r.body[:r.left-len("\r\n")])
			if err = r.add(value(r.kind, text)); err == nil {
				err = r.settle()
			}
		}
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// value is a string of whatever type.
func value(kind byte, text string) resp.Reply {
	switch kind {
	case '-', '!':
		return resp.Failure(resp.Error(withoutArguments(strings.TrimPrefix(text, "ERR "))))
	case '=':
		_, text, _ = strings.Cut(text, ":")
	}
	return resp.Text(text)
}

// takeLine takes a line without its end.
func (r *reader) takeLine(text string) error {
	r.expects, r.next = lineEnd, line
	if err := r.count(len(text)); err != nil {
		return err
	}
	kind, text := text[0], text[1:]
	switch kind {
	case '+', '-', ',', '(':
		return r.add(value(kind, text))
	case '_':
		return r.add(resp.Null())
	case '#':
		return r.add(resp.Other())
	case ':':
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return broken("%.20q is no number", text)
		}
		return r.add(resp.Number(n))
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || n > maxManyBytes {
		return broken("%.20q is no length of a reply", text)
	}
	switch {
	case n < 0:
		return r.add(resp.Null())
	case kind == '$', kind == '=', kind == '!':
		r.next, r.kind, r.left, r.body = body, kind, n+len("\r\n"), r.body[:0]
		return r.count(n)
	case kind == '*', kind == '~', kind == '%':
		if kind == '%' {
			n *= 2
		}
		return r.openList(n)
	}
	return broken("%q begins no reply", kind)
}

func (r *reader) openList(n int) error {
	most := maxElements
	if r.long {
		most = maxManyElements
	}
	switch r.elements += n; {
	case r.elements > most:
		return broken("a reply has more than %d elements", most)
	case len(r.open) == maxDepth:
		return broken("lists within lists, more than %d", maxDepth)
	case n == 0:
		return r.add(resp.List(nil))
	}
	r.open = append(r.open, opened{make([]resp.Reply, 0, n), n})
	return nil
}

func (r *reader) count(bytes int) error {
	most := maxBytes
	if r.long {
		most = maxManyBytes
	}
	if r.bytes += bytes; r.bytes > most {
		return broken("a reply has more than %d bytes", most)
	}
	return nil
}

// add adds an element, and ends what ends with it.
func (r *reader) add(element resp.Reply) error {
	for len(r.open) > 0 {
		top := &r.open[len(r.open)-1]
		top.values = append(top.values, element)
		if top.left--; top.left > 0 {
			return nil
		}
		element = resp.List(top.values)
		r.open = r.open[:len(r.open)-1]
	}
	r.reply, r.done = element, true
	return nil
}

// settle is called when all of a line or of a string has come.
func (r *reader) settle() error {
	if !r.done {
		return nil
	}
	if said, err := r.reply.ToString(); err == nil && r.long && strings.Contains(said, "\nrole:slave\r\n") {
		r.batch.elsewhere = true
	} else if refused, ok := resp.IsError(r.reply.Err()); ok && strings.HasPrefix(refused.Error(), "READONLY") {
		r.batch.elsewhere = true
	}
	if r.last && r.batch.elsewhere {
		return errElsewhere
	}
	return nil
}
