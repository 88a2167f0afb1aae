package admission

import (
	"context"
	"slices"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
)

// Beside tells which other nodes of the group are clusters, maybe the same one: those that come
// before this one.
func (v *Voting) Beside(earlier []*Voting) { v.earlier.Store(&earlier) }

// readMembers reads by which members of a cluster a server is known again, whichever slot is asked
// for. Of a server on its own there is nothing to read.
func (v *Voting) readMembers(ctx context.Context) (ids []string, err error) {
	if !v.store.keys.Clustered() {
		return nil, nil
	}
	all, err := command.ParseMembers(v.store.link.Do(ctx, command.Members()))
	for _, m := range all {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids, err
}

// checkClusters refuses a server that is in the cluster of another node of the group. What stops
// that cluster would take two votes.
func (v *Voting) checkClusters(s *Server) error {
	if len(s.members) == 0 {
		return nil
	}
	earlier := v.earlier.Load()
	if earlier == nil {
		return nil
	}
	for _, other := range *earlier {
		of := other.server.Load()
		if of == nil {
			continue
		}
		if _, compared := s.compared.Load(of); compared {
			continue
		}
		if slices.ContainsFunc(of.members, func(id string) bool {
			_, found := slices.BinarySearch(s.members, id)
			return found
		}) {
			return engine.Misconfiguredf("this is the same cluster as the node %s: a cluster has one vote, whatever the hash tags",
				other.store.errors.Name)
		}
		s.compared.Store(of, true)
	}
	return nil
}
