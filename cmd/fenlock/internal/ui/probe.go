package ui

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// probe is a node that is asked first whether it answers. While it does not, those who
// list and inspect locks are told so at once: a server that hangs would hold up each of
// their questions anew. It is a fenlock.Node, for an Admin.
type probe struct {
	fenlock.Node

	mu       sync.Mutex
	question chan struct{} // closed when the one under way is answered; nil if there is none
	took     time.Duration
	err      error
	at       time.Time // of the answer, or of when it was not waited for any more
}

// patience is how long a node has for an answer.
const patience = 2 * time.Second

// errNoAnswer is the error of a node that was not waited for.
var errNoAnswer = errors.New("nothing came within 2 s")

// A failed probe keeps others from asking for so long.
const believed = 10 * time.Second

// asked is a name to ask for: what is said of it does not matter.
const asked = "fenlock-ui"

// begin asks the node, unless it is being asked already, and returns what is closed when
// it has answered.
func (p *probe) begin(ctx context.Context, running *sync.WaitGroup) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.question != nil {
		return p.question
	}
	question := make(chan struct{})
	p.question = question
	running.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		start := time.Now()
		err := p.look(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = errNoAnswer
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.took, p.err, p.at, p.question = time.Since(start), err, time.Now(), nil
		close(question)
	})
	return question
}

func (p *probe) look(ctx context.Context) error {
	admin, err := p.admin()
	if err != nil {
		return err
	}
	_, err = admin.Inspect(ctx, asked)
	return err
}

func (p *probe) admin() (node.Admin, error) {
	admin, ok := p.Node.Engine().(node.Admin)
	if !ok {
		return nil, fmt.Errorf("%w: it cannot show its leases", errors.ErrUnsupported)
	}
	return admin, nil
}

// result is how the node does, as far as is known by now.
func (p *probe) result() Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.question != nil {
		p.err, p.at = errNoAnswer, time.Now()
	}
	n := Node{Name: p.String(), Err: p.err}
	switch {
	case p.err == nil:
		n.RoundTrip = p.took
	case errors.Is(p.err, fenlock.ErrMisconfigured):
		n.State = fenlock.NodeMisconfigured
	default:
		n.State = fenlock.NodeDown
	}
	return n
}

// Engine implements fenlock.Node.
func (p *probe) Engine() any { return p }

// answering returns the node's Admin, or why it is not to be asked.
func (p *probe) answering() (node.Admin, error) {
	p.mu.Lock()
	err := p.err
	if time.Since(p.at) > believed {
		err = nil
	}
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return p.admin()
}

// Inspect implements node.Admin.
func (p *probe) Inspect(ctx context.Context, name string) (node.Lease, error) {
	admin, err := p.answering()
	if err != nil {
		return node.Lease{}, err
	}
	return admin.Inspect(ctx, name)
}

// Waiting implements node.Admin.
func (p *probe) Waiting(ctx context.Context, name string, limit int) ([]node.Waiter, int, error) {
	admin, err := p.answering()
	if err != nil {
		return nil, 0, err
	}
	return admin.Waiting(ctx, name, limit)
}

// List implements node.Admin.
func (p *probe) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	admin, err := p.answering()
	if err != nil {
		return err
	}
	return admin.List(ctx, prefix, yield)
}
