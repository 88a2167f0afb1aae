package rebuild

import (
	"context"
	"slices"
	"sync"

	"github.com/fenlock/fenlock/node"
)

// Ask asks the nodes of a group other than self for their registers, all at once;
// nil stands for no answer. Self may be in the group within a wrapper.
func Ask(ctx context.Context, group node.Group, self node.Node) []*node.Registers {
	var wait sync.WaitGroup
	others := slices.DeleteFunc(slices.Clone(group.Nodes), func(n node.Node) bool { return n.Engine() == self.Engine() })
	answers := make([]*node.Registers, len(others))
	for i, n := range others {
		wait.Go(func() {
			if other, ok := n.Engine().(node.Rejoiner); ok {
				if r, err := other.Registers(ctx); err == nil {
					answers[i] = &r
				}
			}
		})
	}
	wait.Wait()
	return answers
}
