package rebuild

import (
	"context"
	"sync"

	"github.com/fenlock/fenlock/node"
)

// Ask asks the nodes of a group other than self for their registers, all at once;
// nil stands for no answer. Self may be in the group within a wrapper.
func Ask(ctx context.Context, group node.Group, self node.Node) []*node.Registers {
	var answers []*node.Registers
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, n := range group.Nodes {
		engine := n.Engine()
		if engine == self.Engine() {
			continue
		}
		wait.Go(func() {
			var answer *node.Registers
			if other, ok := engine.(node.Rejoiner); ok {
				if r, err := other.Registers(ctx); err == nil {
					answer = &r
				}
			}
			mu.Lock()
			answers = append(answers, answer)
			mu.Unlock()
		})
	}
	wait.Wait()
	return answers
}
