package ui

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
	"github.com/fenlock/fenlock/node"
)

// Group is the Source of real nodes.
type Group struct {
	*admin.Admin // of the probes: a node that cannot be used is not asked
	probes       []*probe
	ctx          context.Context
	cancel       context.CancelFunc
	ended        sync.WaitGroup
}

// NewGroup returns the Source of a group of nodes, which remain the caller's. Close it
// before them. The error is admin.New's.
func NewGroup(nodes []fenlock.Node) (*Group, error) {
	if _, err := admin.New(nodes); err != nil {
		return nil, err
	}
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	var probed []fenlock.Node
	for _, n := range nodes {
		p, err := newProbe(n)
		if err != nil {
			return nil, err
		}
		g.probes, probed = append(g.probes, p), append(probed, p)
	}
	var err error
	g.Admin, err = admin.New(probed)
	return g, err
}

// Close ends what is under way.
func (g *Group) Close() {
	g.cancel()
	g.ended.Wait()
}

// Nodes implements Source.
func (g *Group) Nodes(ctx context.Context) []Node {
	answers, stop := make(chan bool, len(g.probes)), make(chan struct{})
	var waiting sync.WaitGroup
	var longest time.Duration
	for _, p := range g.probes {
		answered, due := p.begin(g.ctx, &g.ended)
		longest = max(longest, due)
		waiting.Go(func() {
			select {
			case <-answered:
				answers <- p.result().Err == nil
			case <-stop:
			}
		})
	}
	g.await(ctx, answers, longest)
	close(stop)
	waiting.Wait()
	var seen doctor.Group
	for _, p := range g.probes {
		seen.Nodes = append(seen.Nodes, p.result())
	}
	return nodesOf(seen)
}

// await waits until all nodes have answered, or a majority has and the others' time is up.
func (g *Group) await(ctx context.Context, answers <-chan bool, longest time.Duration) {
	var up <-chan time.Time
	for good, all := 0, 0; all < len(g.probes); all++ {
		select {
		case ok := <-answers:
			if ok {
				good++
			}
			if good >= node.Quorum(len(g.probes)) && up == nil {
				timer := time.NewTimer(longest)
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

// nodesOf says how nodes do, from what they say of themselves and of each other.
func nodesOf(g doctor.Group) (nodes []Node) {
	var found []doctor.Finding
	for i, s := range g.Standings() {
		e := g.Nodes[i].Examination
		n := Node{Name: g.Nodes[i].Node, Standing: s, RoundTrip: e.RoundTrip,
			Note: strings.TrimSpace(e.Product + " " + e.Version)}
		if e.Role == "replica" {
			n.Note += ", a replica"
		}
		if !s.Usable() {
			if found == nil {
				found = g.Examine()
			}
			n.Advice = advice(found, n.Name, e.Findings)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// decisive are what the doctor finds that keeps a node from voting, beside what is wrong
// with the node by itself.
var decisive = []string{"same-server", "members", "max-ttl", "rebuild", "out"}

// advice is what to do about a node that does not vote.
func advice(found []doctor.Finding, name string, own []node.Finding) string {
	for _, f := range found {
		if slices.Contains(f.Nodes, name) &&
			(slices.Contains(decisive, f.Check) || f.Severity > node.Note && slices.Contains(own, f.Finding)) {
			return f.Advice
		}
	}
	return ""
}

// Locks implements Source.
func (g *Group) Locks(ctx context.Context, prefix string, limit int) (admin.Page, error) {
	return g.List(ctx, prefix, "", limit)
}

// Source is where the page has from what it shows. It is safe for concurrent use.
type Source interface {
	// Nodes tells how each node of the group does, in order. It returns soon: a node that
	// hangs is not waited for.
	Nodes(ctx context.Context) []Node
	// Locks returns the first locks with a prefix, as admin.Admin.List does.
	Locks(ctx context.Context, prefix string, limit int) (admin.Page, error)
	// Inspect and ForceRelease are as admin.Admin has them.
	Inspect(ctx context.Context, name string) (admin.LockInfo, error)
	ForceRelease(ctx context.Context, name string) (admin.Broken, error)
}

// Node is how one node does.
type Node struct {
	Name string // as fenlock.Node.String has it
	doctor.Standing
	Advice    string        // what to do if it does not vote, "" if that is not known
	RoundTrip time.Duration // of one question; 0 if it is not known
	Note      string        // what else there is to say, in a few words
}
