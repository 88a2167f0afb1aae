//go:build linux

package kinds

import (
	"slices"

	"github.com/fenlock/fenlock/tests/faults/cluster"
)

// Every kind there is: those of a campaign, and what is only compared.
var Every = append(slices.Clip(All), RollingRestart)

var known = slices.Concat(processKinds, clockKinds, networkKinds, memoryKinds, refusalKinds, databaseKinds, fileKinds)

// All are the kinds of a campaign on Valkey.
var All = On(cluster.Groups[0])

// On returns the kinds of a campaign on a group: those that make sense on one of its
// engines. Which servers a kind may strike says Suits.
func On(g cluster.Group) (all []Kind) {
	for _, k := range known {
		if slices.ContainsFunc(g.Engines, k.Suits) {
			all = append(all, k)
		}
	}
	return all
}
