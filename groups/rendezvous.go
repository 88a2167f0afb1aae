package groups

import (
	"strings"

	"github.com/fenlock/fenlock"
)

// MaxIDLength bounds the id of a group, in bytes.
const MaxIDLength = 128

// Group is a quorum group of several, and its Locker.
type Group struct {
	// ID says which names are on it, and nothing else does: so its servers may be replaced. It
	// belongs to the servers, and is the same in all processes. 1 to MaxIDLength bytes of UTF-8
	// without control characters.
	ID     string
	Locker *fenlock.Locker
}

// Which group a name is on. The functions of this file are fixed for ever: processes
// of two versions that differ in them would both hold a name.

// rendezvous is a list of groups. The group of a name is the one with the largest weight for
// it (rendezvous hashing, or highest random weight: Thaler and Ravishankar, 1998). A
// weight depends on the name and that one group. So a group more takes its
// share from all others, and nothing else moves; one less leaves its share to all others.
type rendezvous []Group

// of returns the group of a name.
func (r rendezvous) of(name string) Group {
	h := mix(fnv1a(hashed(name)))
	best, most := 0, uint64(0)
	for i, g := range r {
		// Equal weights are those of ids with the same hash.
		if w := mix(h ^ mix(fnv1a(g.ID))); i == 0 || w > most || w == most && g.ID < r[best].ID {
			best, most = i, w
		}
	}
	return r[best]
}

// with returns the group that has an id.
func (r rendezvous) with(id string) (Group, bool) {
	for _, g := range r {
		if g.ID == id {
			return g, true
		}
	}
	return Group{}, false
}

// hashed is the part of a name that says which group it is on. That is what is between the first {
// and the next }, if any, as in a Redis Cluster; otherwise all of it.
func hashed(name string) string {
	if _, after, found := strings.Cut(name, "{"); found {
		if tag, _, found := strings.Cut(after, "}"); found && tag != "" {
			return tag
		}
	}
	return name
}

// fnv1a is the 64-bit FNV-1a hash.
func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix is the finalizer of SplitMix64. FNV alone is too even for names that differ in their last
// bytes.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
