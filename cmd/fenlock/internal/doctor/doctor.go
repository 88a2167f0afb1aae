// Package doctor says how a quorum group does, from what its nodes say of themselves: which nodes
// vote, what is wrong, and what to do. It does no I/O.
package doctor

import (
	"cmp"
	"slices"

	"github.com/fenlock/fenlock/node"
)

// Examine says all that should be known of a group: errors first, then warnings, then
// notes; in each, what is about the group before what is about nodes, which are in
// their order. What is the same at several nodes is one finding.
func (g Group) Examine() []Finding {
	standings := g.Standings()
	var found []Finding
	of := func(f node.Finding, nodes ...string) { found = append(found, Finding{nodes, f}) }
	g.quorum(standings, of)
	g.waiting(standings, of)
	g.size(of)
	g.terms(of)
	g.places(of)
	g.timing(of)
	g.clocks(of)
	for _, info := range g.Nodes {
		for _, f := range info.Examination.Findings {
			of(f, info.Node)
		}
	}
	// Last, because a node that waits for others is mended with them.
	for i, info := range g.Nodes {
		standings[i].findings(info, of)
	}
	found = merge(found)
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(min(len(a.Nodes), 1), min(len(b.Nodes), 1)))
	})
	return found
}

// merge puts those together that differ in their nodes only, in the place of the first.
func merge(all []Finding) (merged []Finding) {
	for _, f := range all {
		same := slices.IndexFunc(merged, func(other Finding) bool {
			return other.Finding == f.Finding && len(other.Nodes) > 0 && len(f.Nodes) > 0
		})
		if same < 0 {
			merged = append(merged, f)
			continue
		}
		for _, name := range f.Nodes {
			if !slices.Contains(merged[same].Nodes, name) {
				merged[same].Nodes = append(merged[same].Nodes, name)
			}
		}
	}
	return merged
}

// Worst returns the largest severity, Note if there is no finding.
func Worst(found []Finding) (worst node.Severity) {
	for _, f := range found {
		worst = max(worst, f.Severity)
	}
	return worst
}
