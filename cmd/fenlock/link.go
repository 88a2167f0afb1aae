//go:build linux || darwin || freebsd

package main

import (
	"bytes"
	"encoding/gob"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// link is one end of the connection between fenlock and its watchdog. Both methods
// are for one goroutine each.
type link struct {
	conn net.Conn
	raw  syscall.RawConn
	mu   sync.Mutex
	next bytes.Buffer // what the encoder writes to
	enc  *gob.Encoder
	dec  *gob.Decoder
}

func newLink(f *os.File) (*link, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		conn.Close()
		return nil, err
	}
	l := &link{conn: conn, raw: raw, dec: gob.NewDecoder(conn)}
	l.enc = gob.NewEncoder(&l.next)
	return l, nil
}

// linkTimeout is far longer than it takes to write where there is room. There is,
// unless the other end was stopped for a long time.
const linkTimeout = 100 * time.Millisecond

// send reports whether a value was sent. It never blocks for long: the other end may
// have been stopped. After a failure nothing is sent any more.
func (l *link) send(value any) bool { return l.sendWithin(linkTimeout, value) }

func (l *link) sendWithin(d time.Duration, value any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.enc == nil {
		return false
	}
	l.next.Reset()
	if l.enc.Encode(value) != nil || !l.write(d, l.next.Bytes()) {
		l.enc = nil // half a message may have been sent
	}
	return l.enc != nil
}

// write first writes what there is room for, without a deadline: one that has passed
// before the first byte, because this process was stopped meanwhile, would lose a message
// that nobody says again.
func (l *link) write(d time.Duration, text []byte) bool {
	l.conn.SetWriteDeadline(time.Time{})
	l.raw.Write(func(fd uintptr) bool {
		if n, err := syscall.Write(int(fd), text); err == nil {
			text = text[n:]
		}
		return true // does not wait for room
	})
	if len(text) == 0 {
		return true
	}
	l.conn.SetWriteDeadline(time.Now().Add(d))
	_, err := l.conn.Write(text)
	return err == nil
}

// receive returns a channel of what the other end sends, which is closed when that
// end is.
func receive[T any](l *link) <-chan T {
	values := make(chan T, 16)
	go func() {
		defer close(values)
		for {
			var v T
			if l.dec.Decode(&v) != nil {
				return
			}
			values <- v
		}
	}()
	return values
}

// socketPair returns two connected sockets. The command gets neither.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fds[0]), "watchdog"), os.NewFile(uintptr(fds[1]), "watchdog"), nil
}
