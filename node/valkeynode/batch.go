package valkeynode

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/valkey-io/valkey-go"
)

const (
	// A node has as many batches under way as it has lanes. Requests about one name
	// use one lane, which sends a batch when the one before is answered: so they
	// stay in order, and under load they gather. With a single lane, each could
	// wait for a whole round trip of others, which is long where servers are far.
	laneCount = 4
	// maxBatch keeps the first of a batch from waiting long for the last: they are
	// all answered together.
	maxBatch = 64
)

// started is a request that waits for its turn, or for its answer.
type started struct {
	request node.Request
	timeout time.Duration
	call    node.Call
}

// lane is the requests about some of the names that were started and not sent.
type lane struct {
	mu      sync.Mutex
	more    sync.Cond
	queue   []started // from head on
	head    int
	running bool // its goroutine, from the first request on
	closed  bool

	detours detours
}

// InOrder implements node.Ordered: requests about one name use one lane, and one
// connection.
func (n *Node) InOrder() bool { return true }

// Start implements node.Starter.
func (n *Node) Start(r node.Request, timeout time.Duration, call node.Call) {
	err := n.check(&r)
	if err == nil && r.Op > node.Release {
		err = fmt.Errorf("%w: the operation %v cannot be started; nothing was done", node.ErrInvalid, r.Op)
	}
	if err != nil {
		call.Done(node.Answer{}, n.fail(err))
		return
	}
	l := &n.lanes[node.Stripe(r.Name)%laneCount]
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		call.Done(node.Answer{}, n.fail(errClosed))
		return
	}
	l.queue = append(l.queue, started{r, timeout, call})
	if !l.running {
		l.running = true
		n.tasks.Add(1)
		go n.send(l)
	}
	l.mu.Unlock()
	l.more.Signal()
}

// take moves what waits into a batch, and waits if nothing does. It returns false
// when the node is closed and nothing is left.
func (l *lane) take(batch []started) ([]started, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.head == len(l.queue) {
		if l.closed {
			return nil, false
		}
		l.more.Wait()
	}
	waiting := l.queue[l.head:]
	n := min(len(waiting), maxBatch)
	batch = append(batch, waiting[:n]...)
	clear(waiting[:n])
	l.head += n
	// What was taken must not be carried along for ever: under load the queue is
	// never empty. Each request is moved once, on average.
	if left := len(l.queue) - l.head; l.head >= left {
		copy(l.queue, l.queue[l.head:])
		clear(l.queue[left:])
		l.queue, l.head = l.queue[:left], 0
	}
	return batch, true
}

// close lets the lane's goroutine end. Nothing can be started any more.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.more.Broadcast()
}

// send sends a lane's batches until the node is closed.
func (n *Node) send(l *lane) {
	defer n.tasks.Done()
	var batch []started
	var commands []valkey.Completed
	var last keys
	for {
		var more bool
		// Whoever was answered goes on first: what it asks for next travels with the
		// next batch then, instead of waiting for another round trip.
		runtime.Gosched()
		if batch, more = l.take(batch[:0]); !more {
			return
		}
		commands = n.exchange(l, batch, commands[:0], &last)
		clear(batch)
		clear(commands)
	}
}

// exchange sends a batch in one write and hands the answers out. Its requests have
// no context: who waits has a timer, and the client library closes a connection
// that answers nothing. It returns commands for its memory, or nil if the client
// library may still be writing them: after an error, it does not wait for that.
func (n *Node) exchange(l *lane, batch []started, commands []valkey.Completed, last *keys) []valkey.Completed {
	srv := n.ready()
	sent := batch[:0]
	promises := 0
	for _, s := range batch {
		switch {
		case !s.call.Wanted():
		case srv == nil || l.detours.has(s.request.Name):
			n.startSlowly(l, s)
		default:
			sent = append(sent, s)
			if s.request.Op != node.Release {
				promises++
			}
		}
	}
	replID := "" // each script looks at the server
	if promises >= worthLooking {
		replID = srv.replID
	}
	for i := range sent {
		commands = append(commands, n.command(&sent[i].request, replID, last))
	}
	if replID != "" {
		commands = append(commands, n.lookAfterwards())
	}
	switch len(commands) {
	case 0:
	case 1:
		n.finish(l, srv, sent, []valkey.ValkeyResult{n.client.Do(context.Background(), commands[0])}, nil)
	default:
		results := n.client.DoMulti(context.Background(), commands...)
		if slices.ContainsFunc(results, func(r valkey.ValkeyResult) bool { return r.NonValkeyError() != nil }) {
			commands = nil
		}
		var doubt error
		if replID != "" {
			doubt = srv.sameSince(results[len(sent)].ToString())
		}
		for i := range sent {
			n.finish(l, srv, sent[i:], results[i:len(sent)], doubt)
		}
	}
	return commands
}

// ready returns the server if requests can go to it without looking at it first.
func (n *Node) ready() *server {
	s := n.server.Load()
	if s == nil || s.stale.Load() || s.dial != n.dials.Load() || n.lost() != nil || n.checkTwin(s) != nil {
		return nil
	}
	return s
}

// finish hands the first answer out, unless something has to be done first. Doubt
// is why no answer counts, except of a release, which promises nothing.
func (n *Node) finish(l *lane, srv *server, sent []started, results []valkey.ValkeyResult, doubt error) {
	s := sent[0]
	answer, again, err := parse(results[0].ToMessage())
	if err == nil && !again && s.request.Op != node.Release {
		err = doubt
	}
	if again || doubt != nil {
		srv.stale.Store(true)
	}
	switch {
	case again && overtaken(sent, results):
		s.call.Done(node.Answer{Status: node.Rejoining, Detail: "it was not admitted when this request came"}, nil)
	case again: // not executed
		n.startSlowly(l, s)
	case err == nil && n.dials.Load() != srv.dial:
		n.slowly(l, s, func(ctx context.Context) (node.Answer, error) { return n.countable(ctx, s.request.Op, srv, answer) })
	case err != nil:
		s.call.Done(node.Answer{}, n.fail(err))
	default:
		s.call.Done(cleaned(s.request.Op, answer), nil)
	}
}
