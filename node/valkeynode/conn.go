package valkeynode

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/valkey-io/valkey-go"
)

// lookTimeout bounds connecting to a server and looking at it, which goes on
// in the background when the request that began it has given up.
const lookTimeout = 2 * time.Second

func dialContext(ctx context.Context, network, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return dialer.DialContext(ctx, network, address)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
}

// watched is a connection that tells whether it was closed. While there is none,
// requests wait for a new one in look, where they can be given up: the client
// library lets all of them wait for whoever connects, as long as that may take.
type watched struct {
	net.Conn
	closed atomic.Bool
}

func (c *watched) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// lost returns the newest connection if it was closed, else nil.
func (n *Node) lost() *watched {
	if c := n.conn.Load(); c != nil && c.closed.Load() {
		return c
	}
	return nil
}

// slots bounds the requests in the client library's ring: a full ring ignores
// contexts.
type slots chan struct{}

func newSlots() slots { return make(slots, maxInFlight) }

func (s slots) take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// giveBack frees a slot. A request that was given up is still in the ring, until
// its answer comes or the library closes the connection, which has answered
// nothing for connTimeout by then.
func (s slots) giveBack(ctx context.Context) {
	if ctx.Err() == nil {
		<-s
		return
	}
	time.AfterFunc(connTimeout+2*pingInterval, func() { <-s })
}

// do sends one command and waits for its reply, or until ctx is done.
func (n *Node) do(ctx context.Context, command valkey.Completed) (valkey.ValkeyMessage, error) {
	if err := n.enter(ctx); err != nil {
		return valkey.ValkeyMessage{}, err
	}
	result := n.client.Do(ctx, command)
	n.slots.giveBack(ctx)
	return result.ToMessage()
}

// doMulti sends commands in one write. The replies have errors of their own.
func (n *Node) doMulti(ctx context.Context, commands ...valkey.Completed) ([]valkey.ValkeyResult, error) {
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	defer n.slots.giveBack(ctx)
	return n.client.DoMulti(ctx, commands...), nil
}

// enter takes a slot, or says why nothing can be sent.
func (n *Node) enter(ctx context.Context) error {
	if err := n.slots.take(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	closed := n.closed
	n.mu.Unlock()
	err := ctx.Err() // the library may notice late that the context is done
	if closed {
		err = errClosed
	}
	if err != nil {
		n.slots.giveBack(ctx)
	}
	return err
}

// flight is a task that goes on in the background, once however many wait for it.
type flight struct {
	done   chan struct{}
	err    error
	detail string
}

// fly starts a task unless it is under way, and waits until it has ended or ctx
// is done. Which is a field that mu guards.
func (n *Node) fly(ctx context.Context, which **flight, timeout time.Duration, task func(context.Context, *flight)) (*flight, error) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, errClosed
	}
	f := *which
	if f == nil {
		f = &flight{done: make(chan struct{})}
		*which = f
		n.tasks.Add(1)
		go func() {
			defer n.tasks.Done()
			taskCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
			defer cancel()
			task(taskCtx, f)
			n.mu.Lock()
			*which = nil
			n.mu.Unlock()
			close(f.done)
		}()
	}
	n.mu.Unlock()
	select {
	case <-f.done:
		return f, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look returns the server that the node is connected to, after having looked at
// it once per connection: that it can be a node at all, and that no other node
// of the group is the same server.
func (n *Node) look(ctx context.Context) (*server, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := n.server.Load()
		if s != nil && !s.stale.Load() && s.dial == n.dials.Load() && n.lost() == nil {
			return s, n.checkTwin(s)
		}
		f, err := n.fly(ctx, &n.looking, lookTimeout, func(ctx context.Context, f *flight) {
			f.err = n.lookNow(ctx)
			n.lookError.Store(&f.err)
		})
		if err != nil {
			// A server that takes longer to refuse than a request may last: what it
			// said last time is worth more than "no answer".
			if last := n.lookError.Load(); last != nil && errors.Is(*last, node.ErrMisconfigured) {
				return nil, *last
			}
			return nil, err
		}
		if f.err != nil {
			return nil, f.err
		}
	}
}

func (n *Node) lookNow(ctx context.Context) error {
	for {
		lost := n.lost()
		before := n.dials.Load()
		message, err := n.do(ctx, n.client.B().Info().Build())
		if err != nil {
			return n.warnIfMisconfigured(n.describe(err))
		}
		after := n.dials.Load()
		// A connection that was made meanwhile may lead elsewhere; the first
		// one ever cannot.
		if after != before && after != 1 {
			continue
		}
		info, err := message.ToString()
		if err != nil {
			return err
		}
		f, err := parseInfo(info)
		if err == nil {
			err = f.check()
		}
		if err != nil {
			return n.warnIfMisconfigured(err)
		}
		n.server.Store(&server{dial: after, runID: f.runID, replID: f.replID})
		if lost != nil {
			n.conn.CompareAndSwap(lost, nil) // it was not the one that answers
		}
		return nil
	}
}

// checkTwin refuses a server that is another node of the group already: it would
// vote twice. Addresses do not tell; run ids do.
func (n *Node) checkTwin(s *server) error {
	earlier := n.earlier.Load()
	if earlier == nil {
		return nil
	}
	for _, other := range *earlier {
		if o := other.server.Load(); o != nil && o.runID == s.runID {
			return n.warnIfMisconfigured(misconfigured("this is the same server as the node %s (its run_id is the same): a server has one vote", other))
		}
	}
	return nil
}

// Close closes the connection. Requests under way fail, with an unknown outcome.
// A second Close does nothing.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	for _, end := range n.deafen {
		end()
	}
	n.mu.Unlock()
	for i := range n.lanes {
		n.lanes[i].close()
	}
	n.client.Close()
	n.tasks.Wait()
	n.client.Close() // a connection that a task was making meanwhile
	return nil
}
