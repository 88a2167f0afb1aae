//go:build linux || darwin || freebsd

package watchdog

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// Link is one end of the connection between fenlock and its watchdog: see NewLink and Local. Its
// methods may be called at the same time; what comes is read once, by Orders or by News.
type Link interface {
	// Tell sends an order, and Report news. They report whether that was sent, and never block
	// for long: the other end may have been stopped. After a failure nothing is sent any more.
	Tell(Order) bool
	Report(News) bool
	// TellWithin is Tell with a limit of its own, instead of PatientTimeout.
	TellWithin(time.Duration, Order) bool
	// Orders returns a channel of what fenlock tells, which is closed when its end is.
	Orders() <-chan Order
	// News returns a channel of what the watchdog reports, which is closed when its end is.
	News() <-chan News
	// Close closes the end. The other end's channel is closed then, as this one's.
	Close()
}

// socket is one end of a link between two processes.
type socket struct {
	file   *os.File
	raw    syscall.RawConn
	mu     sync.Mutex
	broken bool // half a message may have been sent
}

// NewLink returns the link of a descriptor, which is the link's from now on.
func NewLink(descriptor int) (Link, error) {
	if _, err := syscall.Getsockname(descriptor); err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	syscall.CloseOnExec(descriptor)
	// Not by package net: all of that would be initialised before a watchdog begins.
	if err := syscall.SetNonblock(descriptor, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &socket{file: os.NewFile(uintptr(descriptor), "watchdog")}
	var err error
	if l.raw, err = l.file.SyscallConn(); err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// Pair returns two descriptors that are connected, and that no process inherits.
func Pair() (ours, theirs int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return 0, 0, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	return fds[0], fds[1], nil
}

func (l *socket) Close() { l.file.Close() }

// PatientTimeout is far longer than it takes to send where there is room. There is,
// unless the other end was stopped for a long time.
const PatientTimeout = 100 * time.Millisecond

func (l *socket) Tell(o Order) bool { return l.TellWithin(PatientTimeout, o) }

func (l *socket) TellWithin(d time.Duration, o Order) bool { return l.send(d, o.fields) }

func (l *socket) Report(n News) bool { return l.send(PatientTimeout, n.fields) }

// send sends a message, after its length.
func (l *socket) send(d time.Duration, fields func(*coder)) bool {
	var length, message coder
	fields(&message)
	n := len(message.text)
	number(&length, &n)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.broken {
		l.broken = !l.write(d, append(length.text, message.text...))
	}
	return !l.broken
}

// write first writes what there is room for, without a deadline. This process may have been stopped
// meanwhile. A deadline that has passed before the first byte would lose a message that is not
// repeated.
func (l *socket) write(d time.Duration, text []byte) bool {
	l.file.SetWriteDeadline(time.Time{})
	l.raw.Write(func(fd uintptr) bool {
		if n, err := syscall.Write(int(fd), text); err == nil {
			text = text[n:]
		}
		return true // does not wait for room
	})
	if len(text) == 0 {
		return true
	}
	l.file.SetWriteDeadline(time.Now().Add(d))
	_, err := l.file.Write(text)
	return err == nil
}

func (l *socket) Orders() <-chan Order {
	return receive(l, func(o *Order) func(*coder) { return o.fields })
}

func (l *socket) News() <-chan News {
	return receive(l, func(n *News) func(*coder) { return n.fields })
}

// maxMessage is more than a command's arguments and environment can be.
const maxMessage = 1 << 30

func receive[T any](l *socket, fields func(*T) func(*coder)) <-chan T {
	values := make(chan T, 16)
	go func() {
		defer close(values)
		head := make([]byte, numberSize)
		for {
			if _, err := io.ReadFull(l.file, head); err != nil {
				return
			}
			n := 0
			number(&coder{text: head, reading: true}, &n)
			if n < 0 || n > maxMessage {
				return
			}
			message := coder{text: make([]byte, n), reading: true}
			if _, err := io.ReadFull(l.file, message.text); err != nil {
				return
			}
			var v T
			fields(&v)(&message)
			if message.short || len(message.text) > 0 {
				return // not of this program: as good as none
			}
			values <- v
		}
	}()
	return values
}
