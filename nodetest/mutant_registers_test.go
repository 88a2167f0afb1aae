package nodetest_test

import (
	"context"
	"fmt"
	"maps"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// rejoiner is a broken node that others are rebuilt from.
type rejoiner struct {
	*client
	told int
}

func (r *rejoiner) Engine() any           { return r }
func (r *rejoiner) Join(node.Group) error { return nil }

// Registers implements node.Rejoiner.
func (r *rejoiner) Registers(context.Context) (node.Registers, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := node.Registers{Server: fmt.Sprintf("%p", r.broken), Memory: "memory", Admitted: true,
		Tokens: maps.Clone(r.broken.registers)}
	r.told++
	if r.tell != nil {
		r.tell(r, &all)
	}
	return all, nil
}

// telling has a node tell something else of its registers.
func telling(change func(r *rejoiner, all *node.Registers)) func(*broken) {
	return func(n *broken) { n.tell = change }
}

// rejoinMutants tell of their registers.
var rejoinMutants = []mutant{
	{"sound registers", "", func(*broken) {}},
	{"a register is missing", "RegistersAreComplete", telling(func(_ *rejoiner, all *node.Registers) {
		for stripe := range all.Tokens {
			delete(all.Tokens, stripe)
			break
		}
	})},
	{"a register is old", "RegistersAreComplete", telling(func(_ *rejoiner, all *node.Registers) {
		for stripe := range all.Tokens {
			all.Tokens[stripe]--
			break
		}
	})},
	{"a register is of no stripe", "RegistersAreComplete", telling(func(_ *rejoiner, all *node.Registers) {
		all.Tokens[node.Stripes] = fence.Token(1)
	})},
	{"registers end with the first page", "RegistersAreComplete", telling(func(_ *rejoiner, all *node.Registers) {
		for stripe := range all.Tokens {
			if len(all.Tokens) > 32 {
				delete(all.Tokens, stripe)
			}
		}
	})},
	{"it does not vote, it says", "RegistersAreComplete", telling(func(_ *rejoiner, all *node.Registers) {
		all.Admitted = false
	})},
	{"the store has no name", "RegistersNameOneStore", telling(func(_ *rejoiner, all *node.Registers) {
		all.Server = ""
	})},
	{"each client names the store", "RegistersNameOneStore", telling(func(r *rejoiner, all *node.Registers) {
		all.Server = fmt.Sprintf("%p", r)
	})},
	{"the store has another name each time", "RegistersNameOneStore", telling(func(r *rejoiner, all *node.Registers) {
		all.Server = fmt.Sprint(r.told)
	})},
	{"each client names the memory", "RegistersNameOneStore", telling(func(r *rejoiner, all *node.Registers) {
		all.Memory = fmt.Sprintf("%p", r)
	})},
	{"the memory has another name each time", "RegistersNameOneStore", telling(func(r *rejoiner, all *node.Registers) {
		all.Memory = fmt.Sprint(r.told)
	})},
}
