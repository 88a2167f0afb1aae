package mysqlnode

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// The driver trusts lengths. A server that answers with a number of columns has it allocate so
// many, and a short packet has it read past the end. A server that sends nonsense must lose its
// vote, and cost its clients nothing. So what it sends is looked at below the driver. What panics
// in the driver all the same is an error above it. Behind TLS only the second can be done, and the
// length of an answer be bounded: the server has shown a certificate by then.

const (
	longestAnswer = 16 << 20 // bytes, to one statement; a row has two parts of at most maxStripe
	mostColumns   = 32
)

var errNonsense = errors.New("the server sent what no MySQL server sends")

// dial connects to a server, and looks at what that sends.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &framed{Conn: conn}, nil
}

// framed is a connection whose packets are looked at: 3 bytes with the length, one with a
// number, and so many. It is used by one goroutine at a time.
type framed struct {
	net.Conn
	answer  int    // bytes since something was sent
	command bool   // it was a command, and its first packet has not been looked at
	first   bool   // the packet that is being read is the first one of the answer to a command
	tls     bool   // from now on it is not to be read
	head    []byte // of the packet that is being read, as far as it matters
	left    int    // bytes of it that are still to come, without the head
}

// headLength is what is looked at of a packet: the 4 bytes before it and an OK of the
// longest numbers.
const headLength = 4 + 1 + 9 + 9 + 2

// SyscallConn lets the driver see whether a connection of the pool has ended.
func (f *framed) SyscallConn() (syscall.RawConn, error) {
	if c, ok := f.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.New("not a connection of the system")
}

// Write implements net.Conn.
func (f *framed) Write(b []byte) (int, error) {
	f.answer = 0
	if len(b) >= 4 && !f.tls {
		f.command = b[3] == 0
		const length, ssl = 4 + 32, 0x08 // of the request for TLS, and its bit in the second byte
		f.tls = b[3] == 1 && len(b) == length && b[5]&ssl != 0
	}
	return f.Conn.Write(b)
}

// Read implements net.Conn.
func (f *framed) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if f.answer += n; f.answer > longestAnswer {
		return 0, fmt.Errorf("%w: an answer of more than %d MiB", errNonsense, longestAnswer>>20)
	}
	if f.tls {
		return n, err
	}
	for part := b[:n]; len(part) > 0; {
		size := f.look(part)
		if size < 0 {
			return 0, errNonsense
		}
		part = part[size:]
	}
	return n, err
}

// look takes some of what was read, and returns how much: -1 for nonsense.
func (f *framed) look(part []byte) int {
	if f.left > 0 {
		size := min(f.left, len(part))
		f.left -= size
		return size
	}
	want := 4
	if len(f.head) >= 4 {
		want = 4 + min(f.length(), headLength-4)
	}
	size := min(want-len(f.head), len(part))
	f.head = append(f.head, part[:size]...)
	switch {
	case len(f.head) < 4:
		return size
	case len(f.head) == 4:
		f.first, f.command = f.command, false
		if f.length() == 0 {
			return -1 // the driver reads the first byte of each packet
		}
		return size
	case len(f.head) < 4+min(f.length(), headLength-4):
		return size
	}
	if f.first && !sensible(f.head[4:]) || f.head[4] == 0xff && f.length() < 9 {
		return -1
	}
	f.left = f.length() - (len(f.head) - 4)
	f.head = f.head[:0]
	return size
}

func (f *framed) length() int { return int(f.head[0]) | int(f.head[1])<<8 | int(f.head[2])<<16 }

// sensible reports whether the first packet of the answer to a command is one that the statements
// here have. That is an error, an OK with nothing behind it, or a few columns.
func sensible(p []byte) bool {
	switch p[0] {
	case 0xff:
		return true
	case 0x00:
		at := 1
		for range 2 { // rows affected, last insert id
			if at >= len(p) {
				return false
			}
			at += map[bool]int{true: 1, false: 0}[p[at] < 0xfb] + map[byte]int{0xfc: 3, 0xfd: 4, 0xfe: 9}[p[at]]
		}
		const moreResults = 8
		return at+2 <= len(p) && p[at]&moreResults == 0
	}
	return p[0] <= mostColumns
}

// guarded makes connections whose panics are errors.
type guarded struct{ driver.Connector }

// caught turns a panic of the driver into an error.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w (the driver: %v)", errNonsense, r)
	}
}

// Connect implements driver.Connector.
func (g guarded) Connect(ctx context.Context) (c driver.Conn, err error) {
	defer caught(&err)
	made, err := g.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := made.(fullConn)
	if !ok {
		return nil, errors.New("the driver's connections lack a method")
	}
	return &guardedConn{fullConn: inner}, nil
}

// fullConn is what a connection of the driver can do, and is used here.
type fullConn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
	driver.SessionResetter
	driver.Validator
}

// guardedConn is a connection that is not used any more after a panic.
type guardedConn struct {
	fullConn
	broken bool
}

func (c *guardedConn) after(err *error) {
	if r := recover(); r != nil {
		c.broken = true
		*err = fmt.Errorf("%w (the driver: %v)", errNonsense, r)
	}
}

// QueryContext implements driver.QueryerContext.
func (c *guardedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Rows,
	err error) {
	defer c.after(&err)
	inner, err := c.fullConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return &guardedRows{inner, c}, nil
}

// ExecContext implements driver.ExecerContext.
func (c *guardedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result,
	err error) {
	defer c.after(&err)
	return c.fullConn.ExecContext(ctx, query, args)
}

// IsValid implements driver.Validator.
func (c *guardedConn) IsValid() bool { return !c.broken && c.fullConn.IsValid() }

// ResetSession implements driver.SessionResetter.
func (c *guardedConn) ResetSession(ctx context.Context) error {
	if c.broken {
		return driver.ErrBadConn
	}
	return c.fullConn.ResetSession(ctx)
}

// guardedRows are the rows of such a connection.
type guardedRows struct {
	driver.Rows
	conn *guardedConn
}

// Next implements driver.Rows.
func (r *guardedRows) Next(to []driver.Value) (err error) {
	defer r.conn.after(&err)
	return r.Rows.Next(to)
}

// Close implements driver.Rows.
func (r *guardedRows) Close() (err error) {
	defer r.conn.after(&err)
	return r.Rows.Close()
}
