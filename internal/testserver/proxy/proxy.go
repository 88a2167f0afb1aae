package proxy

import (
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// Proxy is the network before one server. What it loses of a connection is not followed by what was
// sent later. Such a connection is cut in the moment in which packets would pass again. So it never
// continues in the middle of a reply, as with TCP. Safe for concurrent use.
type Proxy struct {
	mu        sync.Mutex
	rng       *rand.Rand
	target    string
	listeners map[int]net.Listener // by client
	rules     map[*Rule]bool
	links     map[*link]bool
	closed    bool
	work      sync.WaitGroup
}

// Rule is something that is wrong with the network, for some clients or all.
type Rule struct {
	Only     func(client int) bool // nil: all clients
	Cut      bool                  // no connections
	To, From Effect                // what else happens to what is sent to the server, and from it
	over     chan struct{}
}

// Effect is what happens to packets of one direction.
type Effect struct {
	Lose  bool          // what is sent vanishes, the end of the connection too
	Hold  bool          // what is sent arrives when the rule is lifted
	Delay time.Duration // what is sent arrives after half of it to the whole
	// One in so many packets arrives later still, by Late; which ones is left to chance. 0 for none.
	OneIn int
	Late  time.Duration
}

type direction int

const (
	to direction = iota
	from
)

func (r *Rule) effect(d direction) Effect { return [...]Effect{to: r.To, from: r.From}[d] }

func (r *Rule) concerns(client int) bool { return r.Only == nil || r.Only(client) }

// New returns a proxy before the server at an address. The numbers vary its delays: nil
// for delays of exactly what a rule says.
func New(target string, rng *rand.Rand) *Proxy {
	return &Proxy{rng: rng, target: target, listeners: make(map[int]net.Listener), rules: make(map[*Rule]bool),
		links: make(map[*link]bool)}
}

// Addr returns the address for a client, which stays the same. It panics if there
// is no port left on the loopback device.
func (p *Proxy) Addr(client int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	listener := p.listeners[client]
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			panic(err)
		}
		p.listeners[client] = listener
		p.work.Go(func() { p.serve(listener, client) })
	}
	return listener.Addr().String()
}

// Impose makes the network worse until lift is called. Rules add up: any one is
// enough for a loss, delays are summed.
func (p *Proxy) Impose(r Rule) (lift func()) {
	r.over = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules[&r] = true
	if r.Cut {
		p.abort(func(l *link) bool { return r.concerns(l.client) })
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.rules, &r)
		close(r.over)
		p.abort(func(l *link) bool { return l.lossy && r.concerns(l.client) })
	})
}

// Rules returns how many rules there are.
func (p *Proxy) Rules() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.rules)
}

// Retarget cuts all connections, and leads new ones to another server.
func (p *Proxy) Retarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
	p.abort(func(*link) bool { return true })
}

// Close cuts everything and waits until nothing is left.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for _, listener := range p.listeners {
		listener.Close()
	}
	p.abort(func(*link) bool { return true })
	p.mu.Unlock()
	p.work.Wait()
}

// abort cuts the connections that are chosen. Called with mu held.
func (p *Proxy) abort(chosen func(*link) bool) {
	for l := range p.links {
		if chosen(l) {
			l.abort()
			delete(p.links, l)
		}
	}
}

// refuses is called with mu held.
func (p *Proxy) refuses(client int) bool {
	for r := range p.rules {
		if r.Cut && r.concerns(client) {
			return true
		}
	}
	return p.closed
}

func (p *Proxy) serve(listener net.Listener, client int) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed
		}
		p.work.Go(func() { p.connect(conn.(*net.TCPConn), client) })
	}
}

func (p *Proxy) connect(conn *net.TCPConn, client int) {
	p.mu.Lock()
	target, refused := p.target, p.refuses(client)
	p.mu.Unlock()
	var server net.Conn
	if !refused {
		var err error
		server, err = net.DialTimeout("tcp", target, 5*time.Second)
		refused = err != nil
	}
	if refused {
		reset(conn)
		return
	}
	l := &link{client: client, near: conn, far: server.(*net.TCPConn), gone: make(chan struct{})}
	p.mu.Lock()
	if p.refuses(client) || p.target != target {
		p.mu.Unlock()
		l.abort()
		return
	}
	p.links[l] = true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, to, l.near, l.far) })
	both.Go(func() { p.pump(l, from, l.far, l.near) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	l.near.Close()
	l.far.Close()
}

// link is one connection through the proxy.
type link struct {
	client    int
	near, far *net.TCPConn // the client's side, the server's
	gone      chan struct{}
	lossy     bool // something of it was lost; guarded by the proxy's mu
}

// abort is called once.
func (l *link) abort() {
	close(l.gone)
	reset(l.near)
	reset(l.far)
}

// reset closes a connection so that the other end has an error at once.
func reset(conn *net.TCPConn) {
	conn.SetLinger(0)
	conn.Close()
}

// packet is what one read returned.
type packet struct {
	data []byte
	due  time.Time
}

// pump passes on what one side sends until it ends, in order. The end arrives last.
func (p *Proxy) pump(l *link, d direction, source, sink *net.TCPConn) {
	queue := make(chan packet, 1024)
	var delivery sync.WaitGroup
	delivery.Go(func() { p.deliver(l, d, queue, sink) })
	defer delivery.Wait()
	defer close(queue)
	buffer := make([]byte, 32<<10)
	for {
		n, err := source.Read(buffer)
		lost, delay := p.fate(l, d)
		if lost && err != nil {
			<-l.gone // the end is lost as well; the rule's end is the link's
			return
		}
		if !lost && n > 0 {
			select {
			case queue <- packet{slices.Clone(buffer[:n]), time.Now().Add(delay)}:
			case <-l.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// fate decides on what was just sent.
func (p *Proxy) fate(l *link, d direction) (lost bool, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.rules {
		if !r.concerns(l.client) {
			continue
		}
		e := r.effect(d)
		lost = lost || e.Lose
		delay += e.Delay
		if e.Delay > 0 && p.rng != nil {
			delay -= time.Duration(p.rng.Int64N(int64(e.Delay/2) + 1))
		}
		if e.OneIn > 0 && rand.IntN(e.OneIn) == 0 {
			delay += e.Late
		}
	}
	l.lossy = l.lossy || lost
	return lost, delay
}

// deliver writes packets when they are due, each after the one before, and the end
// after the last.
func (p *Proxy) deliver(l *link, d direction, queue <-chan packet, sink *net.TCPConn) {
	var failed bool // then the rest is read and dropped
	for packet := range queue {
		if failed || !l.sleep(time.Until(packet.due)) || !p.released(l, d) {
			failed = true
			continue
		}
		_, err := sink.Write(packet.data)
		failed = err != nil
	}
	if !failed && p.released(l, d) {
		sink.CloseWrite()
	}
}

// sleep returns false if the link was cut meanwhile.
func (l *link) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-l.gone:
		return false
	}
}

// released waits until no rule holds packets back. It returns false if the link
// was cut meanwhile.
func (p *Proxy) released(l *link, d direction) bool {
	for {
		over := p.holding(l, d)
		if over == nil {
			return true
		}
		select {
		case <-over:
		case <-l.gone:
			return false
		}
	}
}

func (p *Proxy) holding(l *link, d direction) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.rules {
		if r.concerns(l.client) && r.effect(d).Hold {
			return r.over
		}
	}
	return nil
}
