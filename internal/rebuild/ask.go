package rebuild

import (
	"context"
	"sync"

	"github.com/fenlock/fenlock"
)

// Ask asks the nodes of a group other than self for their registers, all at once;
// nil stands for no answer.
func Ask(ctx context.Context, group fenlock.Group, self fenlock.Node) []*fenlock.Registers {
	var answers []*fenlock.Registers
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, node := range group.Nodes {
		if node == self {
			continue
		}
		wait.Go(func() {
			var answer *fenlock.Registers
			if other, ok := node.(fenlock.Rejoiner); ok {
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
