package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// pool is the members of the cluster that a client may ask, of which it asks one until
// that fails. etcd's own client asks them in turn: with one of three that hangs, every
// third request would be lost.
type pool struct {
	members []*member

	mu      sync.Mutex
	current int
	moved   chan struct{} // closed when current is another one
	problem error         // of the last member that was not connected to, until one answers
}

func newPool(members []*member) *pool {
	// Not all clients begin with the same one.
	return &pool{members: members, current: rand.IntN(len(members)), moved: make(chan struct{})}
}

// now returns the member that is asked, and what is closed when it is another one.
func (p *pool) now() (*member, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.members[p.current], p.moved
}

// leave has another member asked than m, if it is still asked.
func (p *pool) leave(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.members) > 1 && p.members[p.current] == m {
		p.current = (p.current + 1) % len(p.members)
		close(p.moved)
		p.moved = make(chan struct{})
	}
}

// prefer has a member asked from now on, unless the one that is asked was not m any more.
// What goes on over that, goes on there.
func (p *pool) prefer(leader, m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[p.current] == m {
		p.current = slices.Index(p.members, leader)
	}
}

func (p *pool) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problem = err
}

// lately returns why a member was not connected to, if none has answered since.
func (p *pool) lately() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem
}

// ready returns a member that is connected, and its client. Its error is of a request that was not
// sent.
func (p *pool) ready(ctx context.Context) (*member, *clientv3.Client, error) {
	var last error
	for tries := 1; ; tries++ {
		m, _ := p.now()
		c, err := m.connected(ctx)
		if err == nil {
			return m, c, nil
		}
		if last == nil || !errors.Is(err, errConnecting) {
			last = err // says more
			p.note(err)
		}
		if ctx.Err() != nil {
			return nil, nil, node.NotSent(fmt.Errorf("%w: no member of the cluster is connected: %w", ctx.Err(), last))
		}
		if node.Permanent(err) && tries >= len(p.members) {
			return nil, nil, node.NotSent(err)
		}
		p.leave(m)
		if !errors.Is(err, errConnecting) {
			engine.Pause(ctx, refusal)
		}
	}
}

// firstTry is how long a member has to answer what may be asked twice, before another one is asked;
// the next has twice as long, up to mostTry. After refusal it is asked again: all may refuse at
// once, and quickly, as when there is no leader.
const (
	firstTry = 400 * time.Millisecond
	mostTry  = 8 * firstTry
	refusal  = 5 * time.Millisecond
)

// repeat asks one member after the other, until one answers or ctx is done: for what may be
// carried out twice.
func (p *pool) repeat(ctx context.Context, ask func(ctx context.Context, c *clientv3.Client) error) error {
	learners := 0
	for wait := firstTry; ; wait = min(2*wait, mostTry) {
		m, c, err := p.ready(ctx)
		if err != nil {
			return err
		}
		try, cancel := context.WithTimeout(ctx, wait)
		if err = ask(try, c); err == nil {
			p.note(nil)
		}
		cancel()
		switch {
		case tokenGone(err) && wait == firstTry:
			continue
		case is(err, rpctypes.ErrGRPCNotSupportedForLearner) && learners < len(p.members)-1:
			learners++ // the others vote, perhaps
		case err == nil || !hangs(err):
			return err
		}
		p.leave(m)
		if engine.Pause(ctx, refusal); ctx.Err() != nil {
			return err
		}
	}
}
