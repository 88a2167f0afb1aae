package ui

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// Group is the Source of real nodes.
type Group struct {
	admin  *fenlock.Admin // of the probes: who does not answer a probe is not asked
	probes []*probe
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// NewGroup returns the Source of a group of nodes, which remain the caller's. Close it
// before them. The error is fenlock.NewAdmin's.
func NewGroup(nodes []fenlock.Node) (*Group, error) {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	var probed []fenlock.Node
	for _, n := range nodes {
		if n == nil {
			return nil, errors.New("a node is nil")
		}
		p := &probe{Node: n}
		g.probes, probed = append(g.probes, p), append(probed, p)
	}
	var err error
	g.admin, err = fenlock.NewAdmin(probed)
	return g, err
}

// Close ends what is under way.
func (g *Group) Close() {
	g.cancel()
	g.ended.Wait()
}

// grace is how long the other nodes are waited for when a majority has answered, so that
// one that hangs does not hold up the picture of the others.
const grace = 300 * time.Millisecond

// Nodes implements Source.
func (g *Group) Nodes(ctx context.Context) []Node {
	answers, stop := make(chan bool, len(g.probes)), make(chan struct{})
	var waiting sync.WaitGroup
	for _, p := range g.probes {
		answered := p.begin(g.ctx, &g.ended)
		waiting.Go(func() {
			select {
			case <-answered:
				answers <- p.result().Err == nil
			case <-stop:
			}
		})
	}
	g.await(ctx, answers)
	close(stop)
	waiting.Wait()
	var nodes []Node
	for _, p := range g.probes {
		nodes = append(nodes, p.result())
	}
	return nodes
}

// await waits until all nodes have answered, or a majority has and its time is up.
func (g *Group) await(ctx context.Context, answers <-chan bool) {
	var up <-chan time.Time
	for good, all := 0, 0; all < len(g.probes); all++ {
		select {
		case ok := <-answers:
			if ok {
				good++
			}
			if good >= node.Quorum(len(g.probes)) && up == nil {
				timer := time.NewTimer(grace)
				defer timer.Stop()
				up = timer.C
			}
		case <-up:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Locks implements Source.
func (g *Group) Locks(ctx context.Context, prefix string, limit int) (fenlock.Page, error) {
	return g.admin.List(ctx, prefix, "", limit)
}

// Inspect implements Source.
func (g *Group) Inspect(ctx context.Context, name string) (fenlock.LockInfo, error) {
	return g.admin.Inspect(ctx, name)
}

// ForceRelease implements Source.
func (g *Group) ForceRelease(ctx context.Context, name string) (fenlock.Broken, error) {
	return g.admin.ForceRelease(ctx, name)
}
