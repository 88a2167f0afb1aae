//go:build linux || darwin || freebsd

package command

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stderr is where fenlock speaks. There may be no reader: a pager that was stopped, a full disk of
// a log driver. Nothing waits for it for long, and no message is worth more than the lock: those
// that do not fit are counted.
var stderr = newOutput()

const (
	maxUnread = 256 // messages
	// patience is how long a message may take to be written before the next ones are not waited
	// for. Where there is a reader, they are in order with what the command prints.
	patience = 50 * time.Millisecond
)

type output struct {
	messages chan message
	stuck    atomic.Bool // the last one is not written yet
	dropped  atomic.Int64
}

type message struct {
	text    string
	written chan struct{}
}

func newOutput() *output {
	o := &output{messages: make(chan message, maxUnread)}
	go func() {
		var w io.Writer
		for m := range o.messages {
			if w == nil { // seldom is anything said
				w = openStderr()
			}
			// One write, so that lines of several processes do not mix.
			io.WriteString(w, m.text)
			if n := o.dropped.Swap(0); n > 0 {
				fmt.Fprintf(w, "fenlock: %d messages were not printed: the output was not read\n", n)
			}
			o.stuck.Store(false)
			close(m.written)
		}
	}()
	return o
}

// print prints a text, soon. It is safe for concurrent use.
func (o *output) print(text string) {
	m := message{text, make(chan struct{})}
	select {
	case o.messages <- m:
	default:
		o.dropped.Add(1)
		return
	}
	if o.stuck.Load() {
		return
	}
	select {
	case <-m.written:
	case <-time.After(patience):
		o.stuck.Store(true)
	}
}

// flush waits until all is printed, as long as there is a reader.
func (o *output) flush() {
	if len(o.messages) == 0 && !o.stuck.Load() {
		return
	}
	m := message{written: make(chan struct{})}
	select {
	case o.messages <- m:
	default:
		return
	}
	select {
	case <-m.written:
	case <-time.After(4 * patience):
	}
}

// openStderr returns another descriptor of standard error. There a write to a closed pipe is an
// error; for descriptors 1 and 2, package os ends the program by it. But "fenlock run ... 2>&1 |
// head" must still release the lock.
func openStderr() io.Writer {
	descriptor, err := unix.FcntlInt(uintptr(syscall.Stderr), syscall.F_DUPFD_CLOEXEC, syscall.Stderr+1)
	if err != nil { // too many are open
		catchPipe()
		return os.Stderr
	}
	return os.NewFile(uintptr(descriptor), "stderr")
}

// catchPipe does the same for all that a program writes. SIGPIPE is not ignored: the command would
// inherit that. To catch it costs fenlock run a hundredth of its time, as threads take turns.
var catchPipe = sync.OnceFunc(func() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) })
