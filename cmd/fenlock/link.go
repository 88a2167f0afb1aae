//go:build linux || darwin || freebsd

package main

import (
	"encoding/gob"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// job is what a watchdog is to run.
type job struct {
	Path       string
	Args, Env  []string
	Foreground bool // fenlock has the terminal on its input, and gives it away
	TTL        time.Duration
}

// order is what fenlock tells its watchdog. It is one of these.
type order struct {
	Job    *job
	Answer *answer
	Gone   bool // the lock is not held any more
	Signal syscall.Signal
}

// answer says how much validity is left. A watchdog counts it from when it asked, so
// that an answer that was long under way is never believed for too long: the clocks of
// two processes need not be compared.
type answer struct {
	Asked uint64
	Left  time.Duration
}

// news is what a watchdog tells fenlock. It is one of these. A watchdog prints nothing
// itself, because nobody may be reading.
type news struct {
	Asks    uint64 // how long is the lock valid?
	Started int    // the command's process id
	Failed  *failed
	Report  *report
	Say     string
	Ended   *ended
}

// failed is a command that was not started.
type failed struct {
	Status  int
	Message string
}

// report is a step that was taken, and the validity left by then.
type report struct {
	Do     step
	Left   time.Duration
	Denied bool // there was somebody whom the signal may not be sent to
}

// ended is how the command ended, and whether it was stopped for the lock's sake.
type ended struct {
	How       syscall.WaitStatus
	Stopped   bool
	Survivors []process // that could not be killed
}

// link is one end of the connection between fenlock and its watchdog. Both methods
// are for one goroutine each.
type link struct {
	conn net.Conn
	mu   sync.Mutex
	enc  *gob.Encoder
	dec  *gob.Decoder
}

func newLink(f *os.File) (*link, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return &link{conn: conn, enc: gob.NewEncoder(conn), dec: gob.NewDecoder(conn)}, nil
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
	l.conn.SetWriteDeadline(time.Now().Add(d))
	if l.enc.Encode(value) != nil {
		l.enc = nil // half a message may have been sent
	}
	return l.enc != nil
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
