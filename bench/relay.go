package main

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// relay passes connections on to an address, in order and byte by byte.
type relay struct {
	listener net.Listener
	target   string
	delay    time.Duration         // of each direction
	tap      func() func(b []byte) // called per connection; what it returns sees what clients send

	wait   sync.WaitGroup
	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// newRelay returns a relay that listens on a loopback port. tap may be nil.
func newRelay(target string, delay time.Duration, tap func() func(b []byte)) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, target: target, delay: delay, tap: tap}
	r.wait.Go(r.accept)
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

// close ends all connections and waits until nothing of the relay runs.
func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.wait.Wait()
}

// keep reports false, and closes the connection, if the relay is closed.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		c.Close()
		return false
	}
	r.conns = append(r.conns, c)
	return true
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		if !r.keep(client) {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close() // as a server would that is down
			continue
		}
		if !r.keep(server) {
			return
		}
		see := func([]byte) {}
		if r.tap != nil {
			see = r.tap()
		}
		r.wait.Go(func() { r.pass(server, client, see) })
		r.wait.Go(func() { r.pass(client, server, func([]byte) {}) })
	}
}

// parcel is bytes that are on their way.
type parcel struct {
	due   time.Time
	bytes []byte
}

// inTransit is how many parcels one direction of a connection holds at most.
const inTransit = 1 << 14

// pass carries what comes from one end to the other, until one of them closes.
func (r *relay) pass(to, from net.Conn, see func([]byte)) {
	// What comes later must not wait for what came before to be due: this is a long
	// line, not a slow one.
	parcels := make(chan parcel, inTransit)
	r.wait.Go(func() {
		defer from.Close()
		defer to.Close()
		var err error
		for p := range parcels { // to the end even after an error: the reader must not block
			if err != nil {
				continue
			}
			time.Sleep(time.Until(p.due))
			if _, err = to.Write(p.bytes); err != nil {
				from.Close()
			}
		}
	})
	defer close(parcels)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			see(buffer[:n])
			parcels <- parcel{time.Now().Add(r.delay), bytes.Clone(buffer[:n])}
		}
		if err != nil {
			return
		}
	}
}
