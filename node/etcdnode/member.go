package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/fenlock/fenlock/node/engine"
)

// member is one member of the cluster, or, with a client that was given, all of them.
type member struct {
	address string
	life    *engine.Lifetime // of the connections
	dial    func() (*clientv3.Client, error)

	opening engine.Shared[*clientv3.Client]
	mu      sync.Mutex
	client  *clientv3.Client // made once
}

// patience is how long a member may take to be connected to before another one is tried.
const patience = 150 * time.Millisecond

// openTimeout bounds the making of a client, which asks for a token if there is a user.
const openTimeout = 5 * time.Second

// open returns the member's client.
func (m *member) open(ctx context.Context) (*clientv3.Client, error) {
	if c := m.opened(); c != nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, over, err := m.opening.Begin(m.life, m.make).Wait(ctx)
	if !over {
		return nil, errConnecting
	}
	return c, err
}

func (m *member) opened() *clientv3.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.client
}

func (m *member) make() (*clientv3.Client, error) {
	if c := m.opened(); c != nil {
		return c, nil
	}
	c, err := m.dial()
	if err != nil {
		return nil, describe(m.life, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.client = c
	return c, nil
}

// errConnecting is of a member that is being connected to.
var errConnecting = errors.New("it does not answer")

// connected returns the member's client as soon as a request can be sent by it. It returns an error
// after patience, or if the member cannot be connected to.
func (m *member) connected(ctx context.Context) (*clientv3.Client, error) {
	c, err := m.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn := c.ActiveConnection()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return c, nil
		case connectivity.Idle:
			conn.Connect()
		case connectivity.TransientFailure:
			return nil, fmt.Errorf("%s: %w", m.address, describe(context.Background(), m.why(ctx, c)))
		case connectivity.Shutdown:
			return nil, engine.ErrClosed
		}
		if !conn.WaitForStateChange(ctx, state) {
			return nil, fmt.Errorf("%s: %w", m.address, errConnecting)
		}
	}
}

// why returns why a member that was not connected to is not: a request to it says so.
func (m *member) why(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := askStatus(ctx, c); err != nil && ctx.Err() == nil {
		return errors.New(status.Convert(err).Message())
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

// grant asks for an etcd lease of so many seconds at least.
func grant(ctx context.Context, c *clientv3.Client, seconds int64) (clientv3.LeaseID, error) {
	a, err := c.Grant(ctx, seconds)
	switch {
	case err != nil:
		return clientv3.NoLease, fmt.Errorf("asking for an etcd lease: %w", err)
	case a.ID <= clientv3.NoLease: // what is attached to that never ends
		return clientv3.NoLease, errNonsense
	case a.TTL < seconds:
		return clientv3.NoLease, fmt.Errorf("an etcd lease of %d s was asked for, and one of %d s granted", seconds, a.TTL)
	}
	return a.ID, nil
}

// memberPatience is how long a member may take to say how it does.
const memberPatience = time.Second

// answers returns how a member does that is connected to, or can be soon.
func (m *member) answers(ctx context.Context) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	c, err := m.connected(ctx)
	for errors.Is(err, errConnecting) && ctx.Err() == nil {
		c, err = m.connected(ctx)
	}
	if err != nil {
		return nil, err
	}
	return askStatus(ctx, c)
}
