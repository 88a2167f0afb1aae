package core

import (
	"slices"
	"time"
)

// rounds is what an Attempt remembers of its extensions: what each node has accepted, and what it
// has not answered. A node that is behind gets no second extend while it has not answered the
// first. That would only put it further behind, and its answer counts however late it comes.
type rounds struct {
	begun [remembered]time.Duration // when the latest rounds began, by the round modulo the length
	last  [MaxNodes]uint32          // the latest round that each node has accepted, in a way that counts
	first uint32                    // what nodes have accepted of rounds before this one counts for nothing

	asked    Set                     // the nodes that were asked in the round that is under way
	open     Set                     // the nodes that have not answered the latest extend
	patience [MaxNodes]time.Duration // until when an open node is not asked again
	unheard  [MaxNodes]uint8         // how many extends each node has not answered, however old they are
	misses   uint8                   // how often the round has gone on

	// shares says that others may share the name: then acceptances count for the round that asked
	// for them, and for no earlier one. willShare says that they may from the next round on.
	shares, willShare bool
}

// remembered is of how many rounds the beginning is known. A caller that extends by hand makes
// rounds; the others last until they are carried.
const remembered = 8

// Patience returns for how long a node that has not answered an extend is not asked again, where
// leases last so long. It is less than the time between two extensions, so that an unreachable node
// misses none of them for it.
func Patience(ttl time.Duration) time.Duration { return ttl / 10 * 3 }

// begin notes that a round begins.
func (r *rounds) begin(round uint32, now time.Duration) {
	r.begun[round%remembered], r.asked, r.misses = now, 0, 0
	if r.shares = r.shares || r.willShare; r.shares {
		r.first = round
	}
}

// ask notes until when nodes are not sent another extend.
func (r *rounds) ask(to Set, until time.Duration) {
	for node := range MaxNodes {
		if to.Has(node) {
			r.patience[node] = until
		}
	}
	r.asked |= to
	r.open |= to
}

// await notes that an extend is under way to nodes.
func (r *rounds) await(to Set) {
	for node := range MaxNodes {
		if to.Has(node) {
			r.unheard[node] += min(1, 255-r.unheard[node])
		}
	}
}

// free returns those of some nodes that may be asked.
func (r *rounds) free(of Set, now time.Duration) Set {
	for node := range MaxNodes {
		if r.open.Has(node) && now < r.patience[node] {
			of = of.Without(node)
		}
	}
	return of
}

// next returns when the first of some nodes may be asked again that are not free, end if none is.
func (r *rounds) next(of Set, end time.Duration) time.Duration {
	for node := range MaxNodes {
		if (of & r.open).Has(node) {
			end = min(end, r.patience[node])
		}
	}
	return end
}

// heard takes an answer to an extend, and reports whether that was the latest which the node was
// sent.
func (r *rounds) heard(node int, current bool, reply Reply) (latest bool) {
	latest = current || !r.asked.Has(node)
	if latest && !reply.Silent {
		r.open = r.open.Without(node)
	}
	if n := &r.unheard[node]; *n > 0 && (reply.Status != Unknown || reply.Unsent) {
		*n--
	}
	return latest
}

// accepted notes that a node has accepted a round, where the latest is another or the same. What a
// node accepts of a round, it would have accepted of one before. So the validity may be counted
// from the latest round that so many nodes as a quorum have accepted, or a later one. It counts
// from the start of the round, however late its last answer was. Ok is false if there is none that
// counts.
func (r *rounds) accepted(node int, round, latest uint32, nodes, quorum int) (start time.Duration, ok bool) {
	if round < r.first || latest-round >= remembered {
		return 0, false
	}
	r.last[node] = max(r.last[node], round)
	sure := r.sure(nodes, quorum)
	if sure == 0 || sure < r.first || latest-sure >= remembered {
		return 0, false
	}
	return r.begun[sure%remembered], true
}

// sure returns the latest round that a quorum has accepted, or a later one; 0: none.
func (r *rounds) sure(nodes, quorum int) uint32 {
	all := r.last
	slices.Sort(all[:nodes])
	return all[nodes-quorum]
}

// jitter spreads a time by a quarter. It depends on when the lock was acquired, since there is no
// chance in here.
func (r *rounds) jitter(d, acquired time.Duration, round uint32) time.Duration {
	h := (uint64(acquired) + uint64(round)<<8 + uint64(r.misses)) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	return d*3/4 + d/2*time.Duration(h%1024)/1024
}
