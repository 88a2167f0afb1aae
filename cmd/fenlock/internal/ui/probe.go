package ui

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/node"
)

// probe is a node that is examined first. While it cannot be used, lists and inspections of
// locks fail at once. Otherwise a server that hangs would hold up each question anew. It is a
// fenlock.Node, for an Admin.
type probe struct {
	fenlock.Node
	alone *admin.Admin // of this node, to examine it

	mu       sync.Mutex
	question chan struct{} // closed when the one under way is answered; nil if there is none
	begun    time.Time     // when that was asked
	info     admin.NodeInfo
	late     bool          // it was not waited for
	at       time.Time     // of the answer, or of when it was not waited for any more
	took     time.Duration // the last examination that went well; firstTime before one
}

const (
	// grace is how long the other nodes are waited for when a majority has answered. So a node
	// that hangs does not hold up the picture of the others. A node that is slow and works has
	// twice as long as it took before, up to doubtful.
	grace = 300 * time.Millisecond
	// firstTime is how long an examination is assumed to take before the first one.
	firstTime = 500 * time.Millisecond
	// doubtful is how long a node that voted may be silent until it is said to be down. A
	// machine that is busy for a moment is no news.
	doubtful = 2 * time.Second
	// believed is how long a failed examination keeps others from asking.
	believed = 10 * time.Second
)

// errNoAnswer is the error of a node that was not waited for.
var errNoAnswer = errors.New("it was asked, and has not answered yet")

func newProbe(n fenlock.Node) (*probe, error) {
	alone, err := admin.New([]fenlock.Node{n})
	return &probe{Node: n, alone: alone, took: firstTime}, err
}

// begin examines the node, unless that is under way already. It returns what is closed
// when it has answered, and how long that may take before it is taken for one that hangs.
func (p *probe) begin(ctx context.Context, running *sync.WaitGroup) (answered <-chan struct{}, due time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	due = min(max(grace, 2*p.took), doubtful)
	if p.question != nil {
		return p.question, due
	}
	question := make(chan struct{})
	p.question, p.begun = question, time.Now()
	running.Go(func() {
		info := p.alone.Nodes(ctx)[0]
		p.mu.Lock()
		defer p.mu.Unlock()
		p.info, p.at, p.question, p.late, p.took = info, time.Now(), nil, false, 0
		if info.Err == nil {
			p.took = time.Since(p.begun)
		}
		close(question)
	})
	return question, due
}

// result is how the node does, as far as is known by now.
func (p *probe) result() admin.NodeInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.question != nil {
		p.late, p.at = true, time.Now()
		known := p.info.Node != "" && time.Since(p.begun) < doubtful
		if p.info.Err == nil && !known {
			p.info = admin.NodeInfo{Node: p.String(), Err: errNoAnswer,
				Examination: node.Examination{Member: p.info.Examination.Member}}
		}
	}
	return p.info
}

// Engine implements fenlock.Node.
func (p *probe) Engine() any { return p }

// answering returns the node's Admin, or why it is not to be asked.
func (p *probe) answering() (node.Admin, error) {
	p.mu.Lock()
	err := p.info.Err
	if err == nil && p.late {
		err = errNoAnswer
	}
	if time.Since(p.at) > believed {
		err = nil
	}
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	admin, ok := p.Node.Engine().(node.Admin)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return admin, nil
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
