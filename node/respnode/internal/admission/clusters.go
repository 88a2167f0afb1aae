package admission

import (
	"context"
	"slices"
	"sync"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// members are those of the cluster of a node, by which it is known again, whatever the hash tag.
// Those of a server on its own are nil.
type members struct {
	node     string   // whose they are, for people
	ids      []string // in order
	compared sync.Map // with these *members of other nodes
}

// readMembers asks a server for the members of its cluster, if the keys are a cluster's.
func readMembers(ctx context.Context, link resp.Link, keys *command.Keys, node string) (*members, error) {
	if !keys.Clustered() {
		return nil, nil
	}
	all, err := command.ParseMembers(link.Do(ctx, command.Members()))
	m := &members{node: node}
	for _, of := range all {
		m.ids = append(m.ids, of.ID)
	}
	slices.Sort(m.ids)
	return m, err
}

// apart refuses a node in the cluster of another node of its group: what stops that cluster would
// take two votes.
func (m *members) apart(from *members) error {
	if m == nil || from == nil {
		return nil
	}
	if _, compared := m.compared.Load(from); compared {
		return nil
	}
	if slices.ContainsFunc(from.ids, func(id string) bool {
		_, found := slices.BinarySearch(m.ids, id)
		return found
	}) {
		return engine.Misconfiguredf("this is the same cluster as the node %s: a cluster has one vote, whatever the hash tags",
			from.node)
	}
	m.compared.Store(from, true)
	return nil
}
