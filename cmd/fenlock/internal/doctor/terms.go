package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
)

// terms finds servers that are not of one group, or not of this client's.
func (g Group) terms(of report) {
	for i, info := range g.Nodes {
		if first := g.sameServer(i); first >= 0 {
			of(node.Found("same-server", node.Error,
				"%s and %s are the same server, which has one vote: clients refuse the second.", g.Nodes[first].Node, info.Node).
				Do("Name it once, and name another server in its place."), g.Nodes[first].Node, info.Node)
		}
	}
	g.members(of)
	g.maxTTL(of)
}

// members finds servers that belong to another group.
func (g Group) members(of report) {
	own := g.own()
	byList := map[string][]string{} // nodes, by the members they have recorded
	for _, info := range g.Nodes {
		if g.otherMembers(info) {
			list := strings.Join(info.Examination.Members, ", ")
			byList[list] = append(byList[list], info.Node)
		}
	}
	for _, list := range slices.Sorted(maps.Keys(byList)) {
		shared := "they have no member in common"
		var common []string
		for member := range strings.SplitSeq(list, ", ") {
			if slices.Contains(own, member) {
				common = append(common, member)
			}
		}
		if common != nil {
			shared = "they overlap in " + strings.Join(common, ", ")
		}
		of(node.Found("members", node.Error,
			"It belongs to the group of %s, and the group that is named here is %s; %s. If both were let in, two clients could hold a lock at the same time: so clients of this group are refused there.",
			list, strings.Join(own, ", "), shared).
			Do("Name the same servers, in the same way, at all clients. If the members are to be changed: docs/operations.md, “Changing the members”."), byList[list]...)
	}
}

// maxTTL finds servers that disagree on the longest lease, with each other or with this
// client.
func (g Group) maxTTL(of report) {
	byTTL := map[time.Duration][]string{}
	for _, info := range g.Nodes {
		if t := info.Examination.MaxTTL; t != 0 {
			byTTL[t] = append(byTTL[t], info.Node)
		}
	}
	var texts []string
	recorded := slices.Sorted(maps.Keys(byTTL))
	for _, t := range recorded {
		texts = append(texts, fmt.Sprintf("%v at %s", t, strings.Join(byTTL[t], ", ")))
		if g.MaxTTL != 0 && t != g.MaxTTL {
			of(node.Found("max-ttl", node.Error,
				"The longest lease that is recorded there is %v, and --max-ttl is %v: such a client is refused.", t, g.MaxTTL).
				Do("Give all clients the same --max-ttl. To change it: docs/operations.md, “Changing MaxTTL”."), byTTL[t]...)
		}
	}
	if len(recorded) > 1 {
		of(node.Found("max-ttl-differs", node.Error,
			"The servers disagree on the longest lease (%s): whatever a client has, some of them refuse it.",
			strings.Join(texts, "; ")).
			Do("Record the same on all of them: docs/operations.md, “Changing MaxTTL”."))
	}
}
