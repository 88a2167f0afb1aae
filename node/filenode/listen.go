//go:build linux || darwin || freebsd

package filenode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// How long after a failure a pipe is not made again: twice as long after each
// one.
const (
	minRelisten = 50 * time.Millisecond
	maxRelisten = 2 * time.Second
)

// Listen implements node.Queuer by a named pipe in the folder path-waiters beside the file. If the
// first attempt to make it fails, Listen returns why at once; the error matches
// fenlock.ErrMisconfigured if that has to be mended, and fenlock.ErrInvalid if the client is
// invalid or listens already. Where there are no named pipes (Windows), it matches
// errors.ErrUnsupported. After Bind the pipe is made when it is needed, and Listen returns why it
// could not be.
func (n *Node) Listen(ctx context.Context, client string, event func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return n.errorf("listen", engine.Invalidf("filenode: %q is no client", client))
	}
	l := &listener{node: n, client: client, event: event, lstat: os.Lstat,
		first: make(chan error, 1), asked: make(chan struct{}, 1), wanted: make(chan struct{}), closing: make(chan struct{})}
	if n.bound.binds() && n.canPipe() == nil {
		l.late.Store(true)
		l.answer(nil)
	}
	n.mu.Lock()
	switch {
	case n.closed:
		n.mu.Unlock()
		return n.errorf("listen", engine.ErrClosed)
	case n.listeners[client] != nil:
		n.mu.Unlock()
		return n.errorf("listen", engine.Invalidf("filenode: this client listens already"))
	}
	n.listeners[client] = l
	l.running.Go(l.run)
	l.running.Go(l.watch)
	n.mu.Unlock() // from now on it can be closed
	defer context.AfterFunc(ctx, func() { l.answer(fmt.Errorf("the disk did not answer: %w", ctx.Err())) })()
	err := <-l.first
	if isPermanent(err) {
		err = fmt.Errorf("%w: waiters cannot be notified: %w (the folder is for named pipes; all users of the file must be able to write to it)",
			node.ErrMisconfigured, err)
	}
	return n.errorf("listen", err)
}

// listener is a client that listens.
type listener struct {
	node   *Node
	client string
	event  func(waiter string)
	lstat  func(path string) (os.FileInfo, error)

	answered atomic.Bool   // Listen has its answer: from now on there are events
	first    chan error    // what Listen returns
	asked    chan struct{} // a waiter was refused; see watch
	late     atomic.Bool   // the pipe is not made before it is wanted: see want
	wanted   chan struct{} // closed when it is
	waits    atomic.Bool   // for that to be late enough
	closing  chan struct{}
	running  sync.WaitGroup // whatever makes events

	mu   sync.Mutex
	file *os.File    // nil while there is none
	info os.FileInfo // of the file
}

// run makes the pipe and reads it, again whenever it is gone, until close.
func (l *listener) run() {
	if l.late.Load() {
		select {
		case <-l.wanted:
		case <-l.closing:
			return
		}
	}
	for wait := minRelisten; ; wait = min(2*wait, maxRelisten) {
		file, err := l.open()
		if !l.answer(err) && err == nil {
			l.event("")
		}
		if err == nil {
			wait = minRelisten
			l.read(file)
			l.remove()
		}
		select {
		case <-time.After(wait):
		case <-l.closing:
			return
		}
	}
}

func (l *listener) open() (*os.File, error) {
	file, err := l.node.makePipe(l.client)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	l.mu.Lock()
	l.file, l.info = file, info
	l.mu.Unlock()
	select {
	case <-l.closing: // close may have come too early to remove it
		err = engine.ErrClosed
	default:
	}
	if err != nil {
		l.remove()
		return nil, err
	}
	return file, nil
}

// read returns when the file is closed. What comes from it is not trusted: every process that may
// write to the file can write anything there.
func (l *listener) read(file *os.File) {
	in := bufio.NewReaderSize(file, 4096)
	skip := false // the rest of a line that is too long
	for {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			skip = true
			continue
		}
		if err != nil {
			return
		}
		waiter := l.client + ":" + strings.TrimSuffix(string(text), "\n")
		if !skip && rule.CheckPlace(node.Place{Waiter: waiter}) == nil && node.WaiterLabel(waiter) == "" {
			l.event(waiter)
		}
		skip = false
	}
}

// lateness is when a waiter in a chain has a pipe. Before that it has mostly got the name, and a
// pipe costs as much as a third of what a waiter costs besides. What it has not heard until then it
// asks when it has the pipe.
const lateness = 5 * time.Second

// want has a pipe made that is late. A waiter in a chain wants it after some time only.
func (l *listener) want(chained bool) {
	switch {
	case !l.late.Load():
	case !chained:
		if l.late.CompareAndSwap(true, false) {
			close(l.wanted)
		}
	case l.waits.CompareAndSwap(false, true):
		time.AfterFunc(lateness, func() { l.want(false) })
	}
}

// answer gives Listen its answer, unless it has one.
func (l *listener) answer(err error) bool {
	first := l.answered.CompareAndSwap(false, true)
	if first {
		l.first <- err
	}
	return first
}

// present reports whether the pipe that info is about still has its name.
func (l *listener) present(info os.FileInfo) bool {
	now, err := l.lstat(l.node.pipeOf(l.client))
	return err == nil && os.SameFile(info, now)
}

// watch looks whether the pipe was deleted whenever a waiter has asked. It does so in a goroutine
// of its own, and without the mutex: a disk that hangs must not hold waiters up.
func (l *listener) watch() {
	for {
		select {
		case <-l.asked:
			l.mu.Lock()
			file, info := l.file, l.info
			l.mu.Unlock()
			if file != nil && !l.present(info) {
				file.Close() // run makes it anew
			}
		case <-l.closing:
			return
		}
	}
}

// remove ends the pipe: first its name, so that no process tells a waiter that does not listen.
func (l *listener) remove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		if l.present(l.info) {
			os.Remove(l.node.pipeOf(l.client))
		}
		l.file.Close()
		l.file = nil
	}
}

// close ends the listening. It returns when there are no more events.
func (l *listener) close() {
	close(l.closing)
	l.remove()
	l.running.Wait()
}

// event tells a waiter of this node something that comes by no pipe.
func (n *Node) event(waiter string) {
	client, _, _ := strings.Cut(waiter, ":")
	n.mu.Lock()
	l := n.listeners[client]
	if l == nil || n.closed {
		n.mu.Unlock()
		return
	}
	l.running.Add(1) // close waits for it
	n.mu.Unlock()
	defer l.running.Done()
	l.event(waiter)
}

// checkPipe is called when a waiter was refused and will wait. A pipe that was deleted says nothing
// to its reader: a process that cannot be reached would only learn of it by looking. Waiters ask
// every few seconds anyway, which saves a process that does not wait from looking. It does not wait
// for the answer.
func (n *Node) checkPipe(waiter string, chained bool) {
	client, _, _ := strings.Cut(waiter, ":")
	n.mu.Lock()
	l := n.listeners[client]
	n.mu.Unlock()
	if l != nil {
		l.want(chained)
		select {
		case l.asked <- struct{}{}:
		default: // it is about to look
		}
	}
}

// closeListeners makes the waiters unreachable.
func (n *Node) closeListeners() {
	n.mu.Lock()
	n.closed = true
	listeners := n.listeners
	n.listeners = nil
	n.mu.Unlock()
	for _, l := range listeners {
		l.close()
	}
}
