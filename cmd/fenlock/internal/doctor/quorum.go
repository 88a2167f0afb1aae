package doctor

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fenlock/fenlock/node"
)

// quorum finds a group that cannot lock, or only just.
func (g Group) quorum(all []Standing, of report) {
	n := len(g.Nodes)
	need := node.Quorum(n)
	usable, later, longest, fresh, weak := 0, 0, time.Duration(0), 0, false
	for _, s := range g.later().standings() {
		if s.Usable() {
			later++
		}
	}
	for i, s := range all {
		switch {
		case s.Usable():
			usable++
			weak = weak || s.weak
		case s.State == Out && !s.blocked:
			longest = max(longest, s.Wait)
		}
		if e := g.Nodes[i].Examination; g.Nodes[i].Err == nil && !e.Admitted && e.MaxTTL == 0 && len(e.Members) == 0 &&
			!slices.ContainsFunc(e.Findings, func(f node.Finding) bool { return f.Check == "slot" }) { // a cluster is never new
			fresh++
		}
	}
	count := fmt.Sprintf("%d of %d nodes vote, and %d are needed", usable, n, need)
	if n == 1 {
		count = "It cannot be used"
	}
	where := []string{g.Nodes[0].Node}
	if n > 1 {
		where = nil // the group
	}
	switch {
	case usable < need && later >= need:
		f := node.Found("quorum", node.Error,
			"%s: no lock can be taken or extended. In %s it will be enough, if nothing else happens.", count, Seconds(longest)).
			Do("Wait.")
		if fresh == n {
			f = f.Do("Wait; the servers could have been used before. If you know that they are new: fenlock run --new-servers NAME -- true (docs/operations.md, “New servers”).")
		}
		of(f, where...)
	case usable < need && n == 1:
		of(node.Found("quorum", node.Error, "%s: no lock can be taken or extended.", count).Do("See below."), where...)
	case usable < need:
		of(node.Found("quorum", node.Error, "%s: no lock can be taken or extended. Waiting alone does not help.", count).
			Do("Mend the nodes below, those that need least first, until %d vote.", need))
	case usable == need && usable < n:
		of(node.Found("margin", node.Warning, "%s: if one more fails, no lock can be taken or extended.", count).
			Do("Bring the others back before you touch any of these."))
	}
	switch {
	case fresh == n && usable >= need:
		of(node.Found("new-group", node.Note,
			"No server has anything recorded: the group is new, or all of them have lost their memory at once."))
	case weak:
		of(node.Found("memory-lost", node.Warning, "A majority of the servers has lost its memory at once. New tokens are larger than old ones only as far as the clocks of the clients agree.").
			Do("Find out why they went at the same time: servers that fail independently have power, racks and upgrades of their own."))
	}
}

// waiting finds nodes that only have to wait.
func (g Group) waiting(all []Standing, of report) {
	byWhy := map[string][]int{}
	for i, s := range all {
		if s.State == Out && !s.blocked {
			byWhy[s.Why] = append(byWhy[s.Why], i)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(byWhy)) {
		var names []string
		longest := time.Duration(0)
		for _, i := range byWhy[why] {
			names = append(names, g.Nodes[i].Node)
			longest = max(longest, all[i].Wait)
		}
		of(node.Found("out", node.Warning, "It does not vote for another %s: %s.", Seconds(longest), why).
			Do("Wait, and restart no other server until it votes. This time begins and ends only when a client asks for a lock: if none does, run fenlock run some-name -- true, now and after that time."), names...)
	}
}

// size finds groups that are smaller than they look.
func (g Group) size(of report) {
	n := len(g.Nodes)
	switch {
	case n == 1 && g.Nodes[0].Examination.Role != "file":
		of(node.Found("one-node", node.Note,
			"There is one node: while its store is down, no lock can be taken.").
			Do("Three nodes that fail independently survive the loss of one."))
	case n == 2:
		of(node.Found("even", node.Warning,
			"There are two nodes, and both are needed: a lock fails more often than with one.").
			Do("Add a third one (docs/operations.md)."))
	case n%2 == 0:
		of(node.Found("even", node.Note, "There are %d nodes, and %d are needed: they survive the loss of %d, as %d do.", n,
			node.Quorum(n), n-node.Quorum(n), n-1))
	}
}
