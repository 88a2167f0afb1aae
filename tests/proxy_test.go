package tests

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// proxy stands between a client and a server and makes the network worse. All
// its methods are safe for concurrent use.
type proxy struct {
	listener net.Listener
	target   string
	scheme   string

	mu    sync.Mutex
	delay time.Duration // of every reply
	lose  bool          // replies vanish, requests are executed
	hold  chan struct{} // replies wait until it is closed
	conns map[net.Conn]bool
}

func newProxy(t testing.TB, s *testserver.Server) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	scheme, _, _ := strings.Cut(s.URL(), "://")
	p := &proxy{listener: listener, target: s.Addr(), scheme: scheme, conns: make(map[net.Conn]bool)}
	t.Cleanup(func() {
		listener.Close()
		p.cut()
	})
	go p.serve()
	return p
}

func (p *proxy) url() string { return p.scheme + "://" + p.listener.Addr().String() }

// delayReplies lets every reply from now on take d longer.
func (p *proxy) delayReplies(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// loseReplies lets replies vanish, although the commands are executed.
func (p *proxy) loseReplies(lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = lose
}

// holdReplies keeps every reply back until the returned function is called.
func (p *proxy) holdReplies() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hold := make(chan struct{})
	p.hold = hold
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hold = nil
		close(hold)
	}
}

// cut closes all connections; new ones are served.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		go p.pipe(client, server)
	}
}

func (p *proxy) pipe(client, server net.Conn) {
	done := func() {
		client.Close()
		server.Close()
		p.mu.Lock()
		delete(p.conns, client)
		delete(p.conns, server)
		p.mu.Unlock()
	}
	go func() {
		io.Copy(server, client)
		done()
	}()
	defer done()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		delay, lose, hold := p.delay, p.lose, p.hold
		p.mu.Unlock()
		if hold != nil {
			<-hold
		}
		time.Sleep(delay)
		if lose {
			continue
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
