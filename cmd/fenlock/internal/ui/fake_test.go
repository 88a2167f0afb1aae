package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
	"github.com/fenlock/fenlock/fence"
)

// fake is a Source that shows what a test says.
type fake struct {
	mu     sync.Mutex
	nodes  []Node
	locks  map[string]admin.LockInfo
	err    error         // of the list, and of each question
	slow   time.Duration // that a list takes
	looks  int
	broken []string
	refuse error // of a release
}

func newFake(nodes int) *fake {
	f := &fake{locks: map[string]admin.LockInfo{}}
	for i := range nodes {
		f.nodes = append(f.nodes, Node{Name: fmt.Sprintf("valkey://10.0.0.%d:6379", i+1),
			Standing: doctor.Standing{State: doctor.Votes}, RoundTrip: time.Millisecond})
	}
	return f
}

// hold has a client hold a lock on all nodes.
func (f *fake) hold(name, label string, token fence.Token, waiters ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks[name] = f.held(name, label, token, waiters...)
}

func (f *fake) held(name, label string, token fence.Token, waiters ...string) admin.LockInfo {
	l := admin.LockInfo{Name: name, State: admin.Held, Label: label, Since: time.Now().Truncate(time.Millisecond),
		Token: token, Left: 9 * time.Second, Waiting: len(waiters)}
	for _, n := range f.nodes {
		l.Votes = append(l.Votes, admin.Vote{Node: n.Name, Holds: true, Leased: true, Label: label, Since: l.Since,
			Left: l.Left})
	}
	for i, w := range waiters {
		l.Waiters = append(l.Waiters, admin.WaiterInfo{Label: w, Waited: time.Duration(len(waiters)-i) * time.Millisecond,
			Nodes: len(f.nodes)})
	}
	return l
}

func (f *fake) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
}

func (f *fake) looked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looks
}

func (f *fake) Nodes(context.Context) []Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nodes)
}

func (f *fake) Locks(ctx context.Context, prefix string, limit int) (page admin.Page, err error) {
	f.mu.Lock()
	slow := f.slow
	f.looks++
	f.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.locks)) {
		l := f.locks[name]
		l.Waiters = nil
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if len(page.Locks) == limit {
			page.After = page.Locks[limit-1].Name
			break
		}
		page.Locks = append(page.Locks, l)
	}
	return page, cmp.Or(f.err, ctx.Err())
}

func (f *fake) Inspect(_ context.Context, name string) (admin.LockInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, found := f.locks[name]
	if !found {
		l = admin.LockInfo{Name: name, State: admin.Free}
		for _, n := range f.nodes {
			l.Votes = append(l.Votes, admin.Vote{Node: n.Name})
		}
	}
	if f.err != nil {
		l.State = admin.Unclear
	}
	return l, f.err
}

func (f *fake) ForceRelease(_ context.Context, name string) (admin.Broken, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, found := f.locks[name]
	b := admin.Broken{Lock: l}
	if f.refuse != nil {
		return b, f.refuse
	}
	if found {
		b.Token = l.Token + 1024
		delete(f.locks, name)
	}
	f.broken = append(f.broken, name)
	return b, nil
}

// noQuorum is what a group says of which too few nodes answer.
func (f *fake) noQuorum() error {
	e := &fenlock.QuorumError{Op: "list", Nodes: len(f.nodes), Need: len(f.nodes)/2 + 1}
	for _, n := range f.nodes {
		e.Errors = append(e.Errors, fenlock.NodeError{Node: n.Name, Err: errors.New(n.Name + ": connection refused")})
	}
	return e
}

// serve serves a page on a network that is none, so that a test has its own time. It ends
// with the test, and nothing may be left.
func serve(t *testing.T, c Config) (client *http.Client, stop func()) {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, c) }()
	transport := &http.Transport{DialContext: l.dial, DisableCompression: true}
	client = &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		transport.CloseIdleConnections()
	}
	t.Cleanup(stop)
	return client, stop
}

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- addressed{there}:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// addressed is a connection to the page's port.
type addressed struct{ net.Conn }

func (addressed) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5625} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5625} }
