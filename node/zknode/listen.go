package zknode

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// listenTimeout is that of a listener's session, so how long a process that was killed is
// taken for one that listens. Servers grant two of their ticks at least, four seconds by default.
const listenTimeout = 4 * time.Second

// relisten is how long a listener that failed waits before it tries again.
const relisten = 200 * time.Millisecond

// Listen implements node.Queuer by an ephemeral znode, the client's mailbox, in a session of its
// own with a short timeout. The client that notifies a waiter writes into it, in the same multi
// that reserves the name. The listening client has a watch on it: no other client is woken.
func (n *Node) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return n.errorf("listen", fmt.Errorf("%w: %w", node.ErrInvalid, err))
	}
	l := &listener{node: n, client: client, notify: notify, first: make(chan error, 1), changed: make(chan struct{}, 1)}
	l.life, l.end = context.WithCancel(n.life)
	l.session = session.New(n.config(func() time.Duration { return listenTimeout }, func(wire.Event) {
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}))
	n.mu.Lock()
	if n.life.Err() != nil {
		n.mu.Unlock()
		l.end()
		l.session.Close(false)
		return n.errorf("listen", engine.ErrClosed)
	}
	n.listeners = append(n.listeners, l)
	l.work.Go(l.run)
	n.mu.Unlock()
	defer context.AfterFunc(ctx, func() { l.answer(ctx.Err()) })()
	return n.errorf("listen", <-l.first)
}

// listener is a client that listens.
type listener struct {
	node    *Node
	client  string
	notify  func(waiter string)
	session *session.Session
	changed chan struct{} // the mailbox may have changed

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	answered atomic.Bool // Listen has its answer: from now on there are notifications
	first    chan error

	owner int64  // the session in which the mailbox is
	last  uint64 // the number of the last letter
}

// answer gives Listen its answer, unless it has one.
func (l *listener) answer(err error) bool {
	first := l.answered.CompareAndSwap(false, true)
	if first {
		l.first <- err
	}
	return first
}

// run listens, over one connection after the other, until close.
func (l *listener) run() {
	known := ""
	for l.life.Err() == nil {
		err := l.listen(l.life)
		if err == nil || l.life.Err() != nil {
			continue
		}
		// The first failure is Listen's; others that are for a person are told once.
		if !l.answer(err) && node.Permanent(err) && err.Error() != known {
			known = err.Error()
			l.node.admission.Warn("waiters cannot be notified: " + known)
		}
		select {
		case <-time.After(relisten):
		case <-l.life.Done():
		}
	}
	l.answer(engine.ErrClosed)
}

// listen listens over one connection, until that is lost.
func (l *listener) listen(ctx context.Context) error {
	link, err := l.session.Link(ctx)
	if err != nil {
		return err
	}
	fresh, err := l.open(ctx, link)
	if err != nil {
		return err
	}
	if fresh {
		if !l.answer(nil) {
			l.notify("")
		}
		l.node.sweep(ctx, link)
	}
	for {
		replies, err := link.Do(ctx, wire.Get{Path: l.node.paths.client(l.client), Watch: true})
		if lost(err) {
			return nil
		} else if err != nil {
			return err
		}
		if replies[0].Err != wire.OK || replies[0].Stat.EphemeralOwner != link.ID {
			l.owner = 0 // it was removed: make it again
			return nil
		}
		news, newest, missed := readMailbox(l.client, replies[0]).since(l.last)
		l.last = newest
		for _, letter := range news {
			if letter.left != "" {
				l.node.memories.told(letter.left, l.node.known.checked.Load())
			}
			if w := l.client + ":" + letter.waiter; rule.CheckPlace(node.Place{Waiter: w}) == nil {
				l.notify(w)
			}
		}
		if missed {
			l.notify("")
		}
		select {
		case <-l.changed:
		case <-link.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// open makes the mailbox, unless this session has it already. It reports whether it is new: then no
// waiter could be told before.
func (l *listener) open(ctx context.Context, link *session.Link) (fresh bool, err error) {
	if l.owner == link.ID {
		return false, nil
	}
	path := l.node.paths.client(l.client)
	// What an earlier session of this client has left goes: it has no reader.
	replies, err := link.Do(ctx, wire.Delete{Path: path, Version: wire.Any},
		wire.Create{Path: path, ACL: l.node.acl, Ephemeral: true})
	if err != nil {
		if lost(err) {
			l.owner = 0
		}
		return false, err
	}
	if code := replies[1].Err; code != wire.OK {
		if code == wire.NoNode {
			return false, errNotAdmitted // nothing is there yet
		}
		return false, l.node.describe(code)
	}
	l.owner, l.last = link.ID, 0
	return true, nil
}

// close ends the listening, and makes the waiters unreachable. It returns when there are no
// more notifications.
func (l *listener) close() {
	l.end()
	l.session.Close(true) // and the mailbox goes with it
	l.work.Wait()
}
