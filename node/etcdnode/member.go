package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenlock/fenlock/node/engine"
)

// member is one member of the cluster, or, with a client that was given, all of them.
type member struct {
	address string
	life    context.Context // the node's
	dial    func() (*clientv3.Client, error)

	mu      sync.Mutex
	client  *clientv3.Client
	opening *opening
	stream  *aliveStream
}

// opening is an attempt to make the client, which outlives the request that began it.
type opening struct {
	done chan struct{}
	err  error
}

// openTimeout bounds the making of a client, which asks for a token if there is a user.
const openTimeout = 5 * time.Second

// open returns the member's client, which is made once.
func (m *member) open(ctx context.Context) (*clientv3.Client, error) {
	m.mu.Lock()
	if m.client != nil {
		defer m.mu.Unlock()
		return m.client, nil
	}
	if m.life.Err() != nil {
		m.mu.Unlock()
		return nil, engine.ErrClosed
	}
	o := m.opening
	if o == nil {
		o = &opening{done: make(chan struct{})}
		m.opening = o
		go func() {
			client, err := m.dial()
			m.mu.Lock()
			defer m.mu.Unlock()
			m.opening, o.err = nil, describe(m.life, err)
			if err == nil && m.life.Err() != nil {
				client.Close()
				o.err = engine.ErrClosed
			} else if err == nil {
				m.client = client
			}
			close(o.done)
		}()
	}
	m.mu.Unlock()
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-o.done:
		if o.err != nil {
			return nil, o.err
		}
		return m.open(ctx)
	case <-wait.Done():
		return nil, errConnecting
	}
}

// why returns why a member that was not connected to is not: a request to it says so.
func (m *member) why(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := askStatus(ctx, c); err != nil && ctx.Err() == nil {
		return err
	}
	return errConnecting
}

// askStatus asks how a member does, over the connection that there is. (The library makes one
// for the question.)
func askStatus(ctx context.Context, c *clientv3.Client) (*clientv3.StatusResponse, error) {
	a, err := pb.NewMaintenanceClient(c.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	if err == nil && a.Header == nil {
		return nil, errNonsense
	}
	return (*clientv3.StatusResponse)(a), err
}

// close ends the client, unless it was given.
func (m *member) close(given bool) {
	m.mu.Lock()
	client, o := m.client, m.opening
	m.mu.Unlock()
	if o != nil {
		<-o.done // its context has ended
		m.mu.Lock()
		client = m.client
		m.mu.Unlock()
	}
	if client != nil && !given {
		client.Close()
	}
}

// aliveStream keeps etcd leases alive over one stream. etcd's own KeepAliveOnce makes
// one for each call, and with a user each of them costs a hash of the password.
type aliveStream struct {
	pb.Lease_LeaseKeepAliveClient
	end     context.CancelFunc
	sending sync.Mutex

	mu      sync.Mutex
	waiting map[int64][]chan *pb.LeaseKeepAliveResponse
	err     error
}

// keepAlive has a lease begin anew. The answer's TTL is 0 if there is no such lease.
func (m *member) keepAlive(ctx context.Context, id clientv3.LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	s, err := m.aliveStream(ctx)
	if err != nil {
		return nil, err
	}
	answer := make(chan *pb.LeaseKeepAliveResponse, 1)
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return nil, s.err
	}
	s.waiting[int64(id)] = append(s.waiting[int64(id)], answer)
	s.mu.Unlock()
	s.sending.Lock()
	err = s.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)})
	s.sending.Unlock()
	if err != nil {
		m.drop(s, err)
		return nil, err
	}
	select {
	case a, ok := <-answer:
		if !ok {
			return nil, s.err
		}
		return a, nil
	case <-ctx.Done():
		// A member carries out one at a time: those behind would wait as well.
		m.drop(s, ctx.Err())
		return nil, ctx.Err()
	}
}

func (m *member) aliveStream(ctx context.Context) (*aliveStream, error) {
	c, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	s := m.stream
	m.mu.Unlock()
	if s != nil {
		return s, nil
	}
	// It lives longer than ctx, and with a user it begins with a request for a token.
	life, end := context.WithCancel(m.life)
	s = &aliveStream{end: end, waiting: map[int64][]chan *pb.LeaseKeepAliveResponse{}}
	made := make(chan error, 1)
	go func() {
		stream, err := pb.NewLeaseClient(c.ActiveConnection()).LeaseKeepAlive(life)
		s.Lease_LeaseKeepAliveClient = stream
		made <- err
		if err == nil {
			m.drop(s, s.receive())
		}
	}()
	select {
	case err = <-made:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream != nil { // somebody else was faster
		end()
		return m.stream, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil { // it has ended already
		return nil, s.err
	}
	m.stream = s
	return s, nil
}

// receive hands out the answers until the stream ends.
func (s *aliveStream) receive() error {
	for {
		a, err := s.Recv()
		if err != nil {
			return err
		}
		s.mu.Lock()
		all := s.waiting[a.ID]
		if len(all) > 0 {
			all[0] <- a
			s.waiting[a.ID] = all[1:]
		}
		if len(all) <= 1 {
			delete(s.waiting, a.ID)
		}
		s.mu.Unlock()
	}
}

// drop ends a stream, and has the next one made.
func (m *member) drop(s *aliveStream, err error) {
	if err == nil {
		err = errors.New("the stream has ended")
	}
	s.fail(fmt.Errorf("keeping a lease alive: %w", err))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream == s { // one that was not taken yet is not any more: it has failed
		m.stream = nil
	}
}

// fail ends it, for all who wait for its answers.
func (s *aliveStream) fail(err error) {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = err
	for _, all := range s.waiting {
		for _, answer := range all {
			close(answer)
		}
	}
	s.waiting = nil
}
