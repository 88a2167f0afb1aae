package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

const (
	// hang is how long a server may be silent that has a request to answer. Then the
	// connection is given up, for one to another server.
	hang = 2 * time.Second
	// mostMessage bounds a message from the server.
	mostMessage = 4 << 20
	// mostUnsent bounds what waits to be sent.
	mostUnsent = 8 << 20
	// maxPing is the longest time between two signs of life.
	maxPing = time.Second
	// Silence is the longest time between two signs of life that were answered: over a
	// connection with a longer one nothing is sent.
	Silence = hang + maxPing
)

// Link is one connection of a session.
type Link struct {
	ID      int64         // of the session
	Fresh   bool          // the session began with this connection
	Timeout time.Duration // as the servers granted it

	conn    net.Conn
	server  string
	session *Session
	done    chan struct{} // closed when the connection is lost
	wakeup  chan struct{} // there is something to send
	work    sync.WaitGroup

	mu      sync.Mutex
	err     error // why done is closed
	xid     int32
	unsent  []byte
	waiting []call // in the order in which they were sent, which is that of the answers
	pinged  bool   // and not answered
	// When the last sign of life was sent, and the last one that was answered. The leader
	// hears of one from the server, soon; of the first, when the session is taken up, it
	// hears at once.
	pingedAt, heardAt time.Duration
}

// call is a request that was sent.
type call struct {
	xid     int32
	request wire.Request
	batch   *batch
}

// batch are the answers to the calls of one Do, so far.
type batch struct {
	replies []wire.Reply
	err     error
	done    chan struct{} // closed when all are there, or err is set
}

// LostError is of requests that were sent and not answered: whether they were carried
// out is not known.
type LostError struct{ Cause error }

func (e *LostError) Error() string {
	return e.Cause.Error() + "; what was sent may have been carried out"
}
func (e *LostError) Unwrap() error { return e.Cause }

// errUnsent is of a connection that takes nothing more.
var errUnsent = errors.New("the connection is clogged: too much waits to be sent")

// Server returns the address of the other end.
func (l *Link) Server() string { return l.server }

// Behind returns what this client has seen of the ensemble, if the servers would have refused a
// client that has. In that case they may have lost their memory. 0 otherwise.
func (l *Link) Behind() int64 { return l.session.unproven.Load() }

// Believe has Behind return 0 from now on. If the connection is lost it does nothing: what was
// found over it is not about the servers of the next one.
func (l *Link) Believe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.session.unproven.Store(0)
	}
}

// Done is closed when the connection is lost.
func (l *Link) Done() <-chan struct{} { return l.done }

func (l *Link) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *Link) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("%s: %w", l.server, l.err)
}

// Do sends requests together and returns their answers. A *LostError means that they were
// sent and are not answered; with another error they were not sent. A request that the
// server refuses is an answer.
func (l *Link) Do(ctx context.Context, requests ...wire.Request) ([]wire.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := &batch{replies: make([]wire.Reply, 0, len(requests)), done: make(chan struct{})}
	l.mu.Lock()
	if l.err != nil || len(l.unsent) > mostUnsent {
		err := l.err
		l.mu.Unlock()
		if err == nil {
			err = errUnsent
		}
		return nil, err
	}
	for _, r := range requests {
		l.xid = max((l.xid+1)&0x7fffffff, 1)
		l.put(l.xid, r)
		l.waiting = append(l.waiting, call{l.xid, r, b})
	}
	l.mu.Unlock()
	select {
	case <-b.done:
	case <-ctx.Done():
		return nil, &LostError{fmt.Errorf("%s has not answered: %w", l.server, ctx.Err())}
	}
	if b.err != nil {
		return nil, &LostError{fmt.Errorf("%s: %w", l.server, b.err)}
	}
	return b.replies, nil
}

// errPaused is of a process that was stopped. The leader may not have heard of its session for so
// long that it ends before the leases that are taken now.
var errPaused = errors.New("no sign of life was sent for too long, as by a process that was stopped")

// usable reports whether the connection is there, and has shown life all the time. If it has
// not, it is ended: with the next one the leader hears of the session.
func (l *Link) usable() bool {
	if l.ended() {
		return false
	}
	l.mu.Lock()
	silent := l.silent(clock.Now())
	l.mu.Unlock()
	if silent {
		l.fail(errPaused)
	}
	return !silent
}

// silent reports whether the last answered sign of life is too old. Called with mu held.
func (l *Link) silent(now time.Duration) bool { return now-l.heardAt > Silence }

// put has a message sent. Called with mu held.
func (l *Link) put(xid int32, r wire.Request) {
	l.unsent = wire.Append(l.unsent, xid, r)
	if len(l.waiting) == 0 && !l.pinged {
		l.conn.SetReadDeadline(time.Now().Add(hang))
	}
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

func (l *Link) start() {
	l.work.Go(l.write)
	l.work.Go(l.read)
}

// wait returns when nothing of the link runs any more.
func (l *Link) wait() { l.work.Wait() }

// fail ends the connection.
func (l *Link) fail(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = why
	for _, c := range l.waiting {
		c.batch.end(why)
	}
	l.waiting, l.unsent = nil, nil
	close(l.done)
	l.conn.Close()
}

// end ends a Do, once. Called with the link's mu held.
func (b *batch) end(err error) {
	if b.err == nil && (err != nil || len(b.replies) == cap(b.replies)) {
		b.err = err
		close(b.done)
	}
}

// write sends what there is to send, and a sign of life now and then.
func (l *Link) write() {
	interval := min(l.Timeout/4, maxPing)
	ping := time.NewTimer(interval)
	defer ping.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-l.wakeup:
		case <-ping.C:
			if !l.usable() {
				return
			}
			l.mu.Lock()
			if l.err == nil && !l.pinged {
				l.put(wire.XidPing, wire.Ping{})
				l.pinged, l.pingedAt = true, clock.Now()
			}
			l.mu.Unlock()
			ping.Reset(interval)
			continue
		}
		l.mu.Lock()
		unsent := l.unsent
		l.unsent = nil
		l.mu.Unlock()
		if len(unsent) == 0 {
			continue
		}
		l.conn.SetWriteDeadline(time.Now().Add(hang))
		if _, err := l.conn.Write(unsent); err != nil {
			l.fail(describe(err))
			return
		}
	}
}

// read reads answers and events.
func (l *Link) read() {
	from := bufio.NewReaderSize(l.conn, 16<<10)
	for {
		message, err := receive(from, mostMessage)
		if err == nil {
			err = l.take(message)
		}
		if err != nil {
			l.fail(describe(err))
			return
		}
	}
}

func (l *Link) take(message []byte) error {
	h, body, err := wire.ReadHeader(message)
	if err != nil {
		return err
	}
	if h.Xid == wire.XidEvent {
		path, err := wire.ReadEvent(body)
		if err == nil && l.session.config.Event != nil {
			l.session.config.Event(path)
		}
		return err
	}
	if h.Zxid > 0 && h.Xid != wire.XidPing {
		l.session.zxid = max(l.session.zxid, h.Zxid)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.expect()
	if h.Xid == wire.XidPing && l.pinged {
		l.pinged = false
		if l.silent(l.pingedAt) {
			return errPaused
		}
		l.heardAt = l.pingedAt
		return nil
	}
	if len(l.waiting) == 0 || l.waiting[0].xid != h.Xid {
		return fmt.Errorf("%w (an answer that nothing was asked for)", wire.ErrMalformed)
	}
	c := l.waiting[0]
	l.waiting[0] = call{}
	l.waiting = l.waiting[1:]
	reply, err := wire.Read(h, body, c.request)
	c.batch.replies = append(c.batch.replies, reply)
	c.batch.end(err)
	return err
}

// expect says until when the next message has to come. Called with mu held.
func (l *Link) expect() {
	if len(l.waiting) == 0 && !l.pinged {
		l.conn.SetReadDeadline(time.Time{})
	} else {
		l.conn.SetReadDeadline(time.Now().Add(hang))
	}
}

// describe says what a broken connection means.
func describe(err error) error {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return fmt.Errorf("it has not answered for %v", hang)
	}
	return fmt.Errorf("the connection was lost: %w", err)
}
