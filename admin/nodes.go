package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// NodeInfo is what is known of a node.
type NodeInfo struct {
	Node string // as Node.String has it
	// Err is why the node cannot be used: no answer, or what has to be changed, which matches
	// fenlock.ErrMisconfigured. nil if it answers and can be a node, whether it votes now
	// (Examination.Admitted) or later.
	Err error
	// Examination is what the node's store says of itself. With Err, it has what was found
	// out before.
	Examination node.Examination
}

// How long a node may take to be looked at. It bounds each of its requests itself: this
// is for one that does not come back.
const (
	lookPatience     = 5 * time.Second
	thoroughPatience = 20 * time.Second
)

// Nodes looks at all nodes of the group: who answers, who votes, and who not and why. All
// are asked at once, so that one that hangs, for two seconds, does not hold the
// others up. It changes nothing on them. The order is that of New.
func (a *Admin) Nodes(ctx context.Context) []NodeInfo { return a.Examine(ctx, node.Look{}) }

// Examine is Nodes, as closely as look says. Its MaxTTL is fenlock.DefaultMaxTTL if it is 0.
func (a *Admin) Examine(ctx context.Context, look node.Look) []NodeInfo {
	if look.MaxTTL == 0 {
		look.MaxTTL = fenlock.DefaultMaxTTL
	}
	patience := lookPatience
	if look.Thorough {
		patience = thoroughPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type answer struct {
		i    int
		info NodeInfo
	}
	// With room for all of them: an answer that comes too late has no receiver.
	answers := make(chan answer, len(a.nodes))
	all := make([]NodeInfo, len(a.nodes))
	for i, n := range a.nodes {
		all[i] = NodeInfo{Node: n.String(), Err: fmt.Errorf("%s: no answer within %v", n, patience)}
		go func() { answers <- answer{i, examine(ctx, n, look)} }()
	}
	for range a.nodes {
		select {
		case one := <-answers:
			all[one.i] = one.info
		case <-ctx.Done():
			return all
		}
	}
	return all
}

func examine(ctx context.Context, n fenlock.Node, look node.Look) NodeInfo {
	info := NodeInfo{Node: n.String()}
	x, ok := n.Engine().(node.Examiner)
	if !ok {
		info.Err = fmt.Errorf("%s: its engine cannot be looked at: %w", n, errors.ErrUnsupported)
		return info
	}
	info.Examination, info.Err = x.Examine(ctx, look)
	return info
}
