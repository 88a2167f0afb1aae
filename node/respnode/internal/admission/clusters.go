package admission

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// seeded is a link to a cluster, by a URL that may name several of its members.
type seeded interface {
	// AskSeeds asks each server that the URL names, on a connection of its own, except the one that
	// the link leads to. It returns the replies by address, of those that answer.
	AskSeeds(ctx context.Context, command resp.Command) map[string]resp.Reply
	// Leave says that the connection of this number leads to no server of the node.
	Leave(dial uint64)
}

// members are the IDs of those of a node's cluster, in order. The cluster is known again by them,
// whatever the hash tag. Those of a server on its own are nil.
type members []string

// meets reports whether two clusters have a member in common.
func (m members) meets(other members) bool {
	return slices.ContainsFunc(other, func(id string) bool {
		_, found := slices.BinarySearch(m, id)
		return found
	})
}

// recognize has a server say of which cluster it is, and refuses another cluster than before. With
// none before it compares the seeds, since another client may begin with another of them. A seed
// in a cluster without slots is not yet anyone's node.
func recognize(ctx context.Context, link resp.Link, dial uint64, before members) (members, error) {
	ids, _, err := command.ParseMembers(link.Do(ctx, command.Members()))
	if err != nil {
		return nil, err
	}
	m := members(ids)
	of, several := link.(seeded)
	switch {
	case before != nil && !before.meets(m):
		if several {
			of.Leave(dial)
		}
		return nil, engine.Misconfiguredf("this is another cluster than before, with none of its members: name members of one cluster only. If all members were replaced, restart this program")
	case before == nil && several:
		replies := of.AskSeeds(ctx, command.Members())
		for _, address := range slices.Sorted(maps.Keys(replies)) {
			seed, serves, err := command.ParseMembers(replies[address], nil)
			if err == nil && serves && !members(seed).meets(m) {
				return nil, engine.Misconfiguredf("the URL names members of two clusters: %s and the owner of the slot have no member in common (CLUSTER NODES)",
					address)
			}
		}
	}
	return m, nil
}

// clusters are those of the nodes of one group: what stops a cluster would take the votes of all
// nodes in it. They are in one place, so that of two nodes that look at once one is refused.
type clusters struct {
	mu sync.Mutex
	of map[*store]members
}

// claim takes a cluster for a node, and refuses one that another node of the group has.
func (c *clusters) claim(by *store, m members) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, has := range c.of {
		if other != by && has.meets(m) {
			return engine.Misconfiguredf("this is the same cluster as the node %s: a cluster has one vote, whatever the hash tags",
				other.errors.Name)
		}
	}
	if c.of == nil {
		c.of = make(map[*store]members)
	}
	c.of[by] = m
	return nil
}
