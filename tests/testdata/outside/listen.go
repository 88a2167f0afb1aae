package filenode

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// listener is a client whose waiters can be told, through a socket beside the file. A client that
// can connect to it has a process at the other end: it ends with the process.
type listener struct {
	socket net.Listener
	ended  chan struct{}
}

// Listen implements node.Queuer.
func (n *Node) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return n.errorf("listen", fmt.Errorf("%w: %w", node.ErrInvalid, err))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed.Load() {
		return n.errorf("listen", errClosed)
	}
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "unix", n.socketOf(client))
	if err != nil {
		return n.errorf("listen", err)
	}
	l := &listener{socket, make(chan struct{})}
	n.listeners = append(n.listeners, l)
	go l.run(notify)
	return nil
}

// run takes one connection after the other: they are made in the order of the
// operations, within them.
func (l *listener) run(notify func(waiter string)) {
	defer close(l.ended)
	for {
		conn, err := l.socket.Accept()
		if err != nil {
			return
		}
		conn.SetDeadline(time.Now().Add(time.Second)) // of a process that was stopped
		waiter, err := io.ReadAll(conn)
		conn.Close()
		switch {
		case err != nil:
			notify("") // a waiter may have been notified
		case len(waiter) > 0:
			notify(string(waiter))
		}
	}
}

func (l *listener) close() {
	l.socket.Close() // removes it
	<-l.ended
}

// socketOf returns the socket of a waiter, or of a client.
func (n *Node) socketOf(waiter string) string {
	client, _, _ := strings.Cut(waiter, ":")
	return n.path + "." + client
}

// queue is the connection to the waiter that an operation reserves the name for.
type queue struct{ conn net.Conn }

// reach connects to a socket, and reports whether there is a listener.
func (q *queue) reach(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	q.conn = conn
	return true
}

// end tells the waiter, if any.
func (q *queue) end(notify string) {
	if q.conn != nil {
		io.WriteString(q.conn, notify)
		q.conn.Close()
	}
}
