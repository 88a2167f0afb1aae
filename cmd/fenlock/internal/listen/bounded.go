package listen

import (
	"net"
	"sync"
	"time"
)

// Bounded returns a listener that has so many connections at most. It takes the next one when some
// time has passed, if that is not 0. One that is too many is closed at once.
func Bounded(l net.Listener, most int, pace time.Duration) net.Listener {
	return &bounded{l, make(chan struct{}, most), pace}
}

type bounded struct {
	net.Listener
	open chan struct{} // has something for each
	pace time.Duration
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		time.Sleep(b.pace)
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.open <- struct{}{}:
			return &counted{Conn: c, open: b.open}, nil
		default:
			c.Close()
		}
	}
}

// counted is a connection of a bounded listener.
type counted struct {
	net.Conn
	open   chan struct{}
	closed sync.Once
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.closed.Do(func() { <-c.open })
	return c.Conn.Close()
}
