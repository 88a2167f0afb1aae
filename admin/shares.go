package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// shared merges what the nodes that have the lease have said of those who share it.
func shared(holding []seen, quorum int) (all []Share, more bool) {
	type known struct {
		Share
		left    []time.Duration
		origins map[fence.Token]int
	}
	byHolder := map[uint64]*known{}
	for _, s := range holding {
		there, incomplete := s.lease.Shares()
		more = more || incomplete
		for _, one := range there {
			k := byHolder[one.Holder]
			if k == nil {
				k = &known{Share: Share{Label: one.Label, Since: one.Since}, origins: map[fence.Token]int{}}
				byHolder[one.Holder] = k
			}
			k.Nodes, k.Token, k.left = k.Nodes+1, max(k.Token, one.Token), append(k.left, one.Remaining)
			k.origins[one.Origin]++
		}
	}
	for _, k := range byHolder {
		for origin, n := range k.origins {
			if k.Token == 0 && n >= quorum {
				k.Share.Token = origin // as in judge
			}
		}
		if k.Nodes >= quorum {
			k.Left = lasting(k.left, quorum)
		}
		all = append(all, k.Share)
	}
	slices.SortFunc(all, func(a, b Share) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Label, b.Label), cmp.Compare(a.Token, b.Token))
	})
	return all, more
}

// lasting returns for how long a quorum has a lease, of which each node that has it says how
// much is left. 0 has no end.
func lasting(left []time.Duration, quorum int) time.Duration {
	endless := func(d time.Duration) int { return min(int(d), 1) }
	slices.SortFunc(left, func(a, b time.Duration) int {
		return cmp.Or(cmp.Compare(endless(a), endless(b)), cmp.Compare(b, a))
	})
	return left[quorum-1]
}
