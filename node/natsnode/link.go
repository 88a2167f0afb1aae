package natsnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
)

// What clients ask of JetStream, for which they need rights.
const (
	apiInfo     = "$JS.API.STREAM.INFO."
	apiGet      = "$JS.API.STREAM.MSG.GET."
	apiConsumer = "$JS.API.CONSUMER."
	apiCreate   = "$JS.API.STREAM.CREATE."
)

// link is the connection of a node. The first request makes it, and the first one after a loss
// makes it anew. It outlives the request that began it.
type link struct {
	*place
	life *engine.Lifetime

	dial   engine.Shared[*session]
	mu     sync.Mutex
	now    *session
	failed error // of the last dial; nil after one that has connected
}

// session is one connection.
type session struct {
	*link
	nc *nats.Conn
	js jetstream.JetStream

	mu      sync.Mutex
	stream  jetstream.Stream // nil: not asked for yet
	denied  []string         // what the server did not let this client do
	waiting map[*pending]bool
}

// open returns the connection, and waits for it if there is none. An error is of before anything
// was sent.
func (l *link) open(ctx context.Context) (*session, error) {
	s, failed := l.known()
	if s != nil {
		return s, nil
	}
	s, over, err := l.dial.Begin(l.life, l.connect).Wait(ctx)
	switch {
	case over:
	case failed != nil:
		err = fmt.Errorf("%w; not connected: %w", err, failed)
	default:
		err = fmt.Errorf("%w: not connected yet", err)
	}
	return s, node.NotSent(err)
}

// known returns the connection, nil if there is none, and why not.
func (l *link) known() (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil && l.now.nc.IsClosed() {
		l.now = nil
	}
	return l.now, l.failed
}

// connect makes the connection, unless another dial has made it meanwhile.
func (l *link) connect() (*session, error) {
	s, _ := l.known()
	if s != nil {
		return s, nil
	}
	s, err := l.session()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now, l.failed = s, err
	return s, err
}

func (l *link) session() (*session, error) {
	options, err := l.options()
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, host := range l.hosts {
		urls = append(urls, "nats://"+host)
	}
	s, by := &session{link: l, waiting: map[*pending]bool{}}, &dialer{life: l.life}
	defer by.done()
	options = append(options, nats.SetCustomDialer(by), nats.ErrorHandler(s.refused))
	if s.nc, err = nats.Connect(strings.Join(urls, ","), options...); err != nil {
		if errors.Is(err, nats.ErrNoServers) && by.err != nil {
			err = by.err // which the library leaves out
		}
		return nil, err
	}
	if s.js, err = jetstream.New(s.nc); err != nil {
		s.nc.Close()
		return nil, err
	}
	stop := context.AfterFunc(l.life, s.nc.Close)
	s.nc.SetClosedHandler(func(*nats.Conn) { stop() })
	return s, nil
}

// dialer makes the connections of one dial, which end with the node.
type dialer struct {
	life context.Context
	err  error // the last one
	stop []func() bool
}

// done says that the dial is over.
func (d *dialer) done() {
	for _, stop := range d.stop {
		stop()
	}
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.life, dialTimeout)
	defer cancel()
	var conn net.Conn
	if conn, d.err = (&net.Dialer{}).DialContext(ctx, network, address); d.err != nil {
		return nil, d.err
	}
	d.stop = append(d.stop, context.AfterFunc(d.life, func() { conn.Close() }))
	return conn, nil
}

// mostDenied is how many refusals a connection remembers.
const mostDenied = 16

// refused is told of what a server says apart from any answer: that a right is missing. The request
// gets no answer then, and ends.
func (s *session) refused(_ *nats.Conn, _ *nats.Subscription, err error) {
	text := err.Error()
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.denied, text) && len(s.denied) < mostDenied {
		s.denied = append(s.denied, text)
	}
	for r := range s.waiting {
		if denies(text, r.subject) || denies(text, s.own("inbox")) {
			r.end()
		}
	}
}

// denies reports whether a refusal is of a subject, or of one that begins so.
func denies(text, subject string) bool { return strings.Contains(text, `"`+subject) }

// pending is a request that waits for its answer.
type pending struct {
	subject string
	end     context.CancelFunc
}

// asks returns the context of a request, which also ends if the server denies the right to a
// subject that begins so. Over has to be called at its end.
func (s *session) asks(ctx context.Context, subject string) (inner context.Context, over func()) {
	inner, cancel := context.WithCancel(ctx)
	r := &pending{subject, cancel}
	s.mu.Lock()
	s.waiting[r] = true
	s.mu.Unlock()
	return inner, func() {
		cancel()
		s.mu.Lock()
		delete(s.waiting, r)
		s.mu.Unlock()
	}
}

// explain returns the error of a request, or the refusal that is the reason.
func (s *session) explain(err error, subject string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.denied {
		if err != nil && (denies(text, subject) || denies(text, s.own("inbox"))) {
			return engine.Misconfiguredf("%s (%s)", text, rights)
		}
	}
	return err
}

// unread is explain for a read. After a connection that has ended, it may be tried on the next one.
func (s *session) unread(err error, subject string) error {
	if err = s.explain(err, subject); errors.Is(err, nats.ErrConnectionClosed) {
		return cas.Again(err)
	}
	return err
}
