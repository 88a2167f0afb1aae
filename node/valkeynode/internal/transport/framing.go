package transport

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// framed is a connection whose replies are checked before the client library sees them. The library
// believes what a server says. A negative length, or one reply too many, panics. A large length
// takes the memory of the whole process. It takes the bytes of a boolean or a null for what they
// should be. So what comes is bounded here, and what goes is counted. One bad server must not end
// the process that a lock is meant to protect.
//
// A line reaches the library when all of it is here and has been checked. Were it to
// come byte by byte, two parsers would have to agree on each byte of a line that is
// wrong; as it is, they only have to agree on lines that are right.
//
// Between them, the bounds keep what one server can make its client hold at once below 32 MiB
// (TestHostileServersHoldLittle). That is a few hundred short replies, or one long reply for each
// caller that asks for such.
type framed struct {
	net.Conn
	explain func(error) error // says why the server has not said a word
	replied atomic.Bool
	asked   asked
	quiet   quiet
	request requestScan
	reply   replyScan

	// What was received and not read yet: in[from:checked], and after that, up to
	// received, a line that is not complete.
	in                      [readBuffer]byte
	from, checked, received int
}

// readBuffer has room for the longest line, with its kind and its end. The library has
// a buffer of the same size.
const readBuffer = 8 << 10

const _ = uint(readBuffer - (1 + maxLine + len("\r\n")))

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
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && f.quiet.again(f.Conn) {
		n, err = f.Conn.Read(f.in[f.received:])
	}
	f.received += n
	if n > 0 {
		f.replied.Store(true)
		checked, bad := f.reply.scan(f.in[:f.received])
		f.quiet.heard(f.Conn, &f.asked)
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
	f.quiet.wrote(f.Conn, &f.asked)
	n, err := f.Conn.Write(p)
	if err != nil && !f.replied.Load() {
		err = f.explain(err)
	}
	return n, err
}

// SetDeadline implements net.Conn.
func (f *framed) SetDeadline(t time.Time) error {
	f.quiet.leave(t)
	return f.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (f *framed) SetReadDeadline(t time.Time) error {
	f.quiet.leave(t)
	return f.Conn.SetReadDeadline(t)
}
