package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// LockInfo is what an operator sees of one name, on all nodes of a group.
type LockInfo struct {
	Name  string
	State LockState

	// Label, Since and Token are of the holder, or of the client with most leases if none has a
	// majority. Label is empty for another Redlock client's. Since is when its attempt began, on
	// its own wall clock; zero if that is not known. Token is 0 if the nodes do not tell it (yet).
	Label string
	Since time.Time
	Token fence.Token
	// Left is for how long a majority still has the lease, unless it is extended; 0 if
	// none has, or if it has no end. The holder itself counts a little less.
	Left time.Duration
	// Bound reports that the lease has no end by time, and ends with the processes of the holder.
	Bound bool

	// Shares are the holders that share the name, in the order in which they came; none if one
	// holder has it alone. MoreShares reports that there may be more than the nodes have told:
	// a list has fewer than Inspect where many share. Label has one of them, and their number.
	Shares     []Share
	MoreShares bool
	// Slots is how many slots the name has, of which each of the Shares is one; 0: none. The
	// lock of each slot has the name with # and the slot's number.
	Slots int

	Votes []Vote // one for each node, in the order of the configuration

	// Waiters are the first in the queue, in order, as far as they were asked for. Waiting is how
	// many there are, on the node that knows of most.
	Waiters []WaiterInfo
	Waiting int
}

// LockState is what a majority of nodes says of a name.
type LockState uint8

// The states of a name.
const (
	// Unclear: a client may hold it. So few nodes that vote answered that it cannot be told.
	Unclear LockState = iota
	// Free: no client holds it. There may be leases on some nodes, while a client tries to take it,
	// or if an attempt left them.
	Free
	// Held: a majority of the nodes has the lease of one holder. It holds the lock, unless
	// it has not heard of that yet, or not any more.
	Held
)

// String returns the state in lower case.
func (s LockState) String() string {
	names := [...]string{"unclear", "free", "held"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// Vote is what one node says of a name.
type Vote struct {
	Node string // as Node.String has it
	// Holds reports that the node has the lease that the LockInfo is about.
	Holds bool
	// Leased reports that it has any lease. Then Label, Since and Left describe it; a Left
	// of 0 has no end.
	Leased   bool
	Reserved bool // it is kept for the next in the queue, for a second
	Label    string
	Since    time.Time
	Left     time.Duration
	// Out reports that the node does not vote, and may have forgotten a lease: Admin.Nodes
	// has the reason.
	Out bool
	Err error // why the node has not told; nil if it has
}

// Share is one holder of a name that several share.
type Share struct {
	Label string    // empty if it is not known
	Since time.Time // when its attempt began, on its own wall clock; zero if that is not known
	Token fence.Token
	// Left is for how long a majority still has its lease, unless it is extended; 0 if none
	// has, or if it has no end.
	Left  time.Duration
	Nodes int // that have its lease: fewer than a majority while it tries to take it
}

// WaiterInfo is one who waits.
type WaiterInfo struct {
	Label  string        // empty if it is not known
	Waited time.Duration // since it came, by the clock of a node
	Nodes  int           // that have it in their queue
}

// seen is what one node has said of a name.
type seen struct {
	lease   node.Lease
	waiters []node.Waiter
	waiting int
	err     error
}

// forgetful reports that the node does not know whether a client has a lease.
func (s seen) forgetful() bool { return s.lease.Out && !s.lease.Leased }

// judge makes one picture of what the nodes have said: names are theirs, of all nodes.
func judge(name string, names []string, said []seen) LockInfo {
	l := LockInfo{Name: name}
	votes, answered := map[uint64]int{}, 0
	for _, s := range said {
		if s.err == nil && !s.forgetful() {
			answered++
		}
		if s.err == nil && s.lease.Leased && !s.lease.Reserved {
			votes[s.lease.Holder]++
		}
	}
	// The one with most leases; of two with as many, the one of the first node.
	var most uint64
	for _, s := range said {
		if h := s.lease.Holder; votes[h] > votes[most] && s.err == nil {
			most = h
		}
	}
	unknown, quorum := len(said)-answered, node.Quorum(len(said))
	switch {
	case votes[most] >= quorum:
		l.State = Held
	case votes[most]+unknown < quorum:
		l.State = Free
	}
	var left []time.Duration
	origins := map[fence.Token]int{}
	for i, s := range said {
		v := Vote{Node: names[i], Out: s.err == nil && s.lease.Out, Err: s.err}
		if s.err == nil && s.lease.Leased {
			v.Leased, v.Reserved, v.Label, v.Since, v.Left = true, s.lease.Reserved, s.lease.Label, s.lease.Since,
				s.lease.Remaining
			v.Holds = votes[most] > 0 && s.lease.Holder == most && !s.lease.Reserved
		}
		l.Votes = append(l.Votes, v)
		if !v.Holds {
			continue
		}
		l.Label, l.Since, l.Token = v.Label, v.Since, max(l.Token, s.lease.Token)
		origins[s.lease.Origin]++
		left, l.Bound = append(left, v.Left), l.Bound || s.lease.Bound
	}
	for origin, n := range origins {
		if l.Token == 0 && n >= quorum {
			l.Token = origin // no confirm was needed: so many have granted this number
		}
	}
	if l.State == Held {
		l.Left = lasting(left, quorum)
	}
	l.Waiters, l.Waiting = queued(said)
	var holding []seen
	for i, s := range said {
		if l.Votes[i].Holds {
			l.Slots, holding = max(l.Slots, s.lease.Slots), append(holding, s)
		}
	}
	l.Shares, l.MoreShares = shared(holding, quorum)
	return l
}

// most is how many waiters Inspect shows.
const most = 100

// queued merges the queues of the nodes. Each has the same order, by stamps; how long a client has
// waited differs by the nodes' clocks. One of these may be an hour off, so the median counts.
func queued(said []seen) (all []WaiterInfo, count int) {
	type waiter struct {
		label  string
		waited []time.Duration
	}
	byID := map[uint64]*waiter{}
	var order []*waiter
	for _, s := range said {
		if s.err != nil {
			continue
		}
		count = max(count, s.waiting)
		for _, w := range s.waiters {
			known := byID[w.ID]
			if known == nil {
				known = &waiter{label: w.Label}
				byID[w.ID], order = known, append(order, known)
			}
			known.waited = append(known.waited, w.Waited)
		}
	}
	for _, w := range order {
		slices.Sort(w.waited)
		all = append(all, WaiterInfo{Label: w.label, Waited: w.waited[(len(w.waited)-1)/2], Nodes: len(w.waited)})
	}
	slices.SortStableFunc(all, func(a, b WaiterInfo) int { return cmp.Compare(b.Waited, a.Waited) })
	return all[:min(len(all), most)], max(count, len(all))
}
