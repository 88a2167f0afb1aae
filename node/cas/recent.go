package cas

import (
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
)

// recent has the records that this process has saved last. What is decided on one of them is a single Save:
// if another client has changed the record, that fails.
//
// The store's clock is not read for it. It is estimated from when it was read last, twice: at its earliest, by
// which the leases of others end late, and at its latest, from which an own lease counts. Between them are
// the round trip of that reading, and what clocks may differ in rate. A clock that steps does no more
// harm than where it is read: the leases in the record were made before the estimate began. That this machine's
// clock stood still, as that of a virtual machine which was paused may, is noticed by the store, if that can compare
// its own one (Loaded.Latest). Otherwise a lease could have ended when it begins.
type recent struct {
	mu      sync.Mutex
	records map[int]remembered
	doubts  map[int]bool // stripes with a write that may still be on its way
}

// remembered is a record, and when the store's clock was read for it: after sent and before got on this
// machine's clock.
type remembered struct {
	Loaded
	sent, got time.Duration
}

// MostLate is by how much a lease may outlive its TTL, by the store's clock, where Loaded.Exact: the estimates of that
// clock are apart by no more. That is so for some ten seconds after the clock was read.
const MostLate = 200 * time.Millisecond

const (
	mostRecent  = 1024
	largeRecent = 4 << 10     // bytes: such a record has other names, or waiters, and changes all the time
	recentLife  = time.Minute // for a release, which promises nothing
	rate        = 100         // a hundredth is what clocks may differ in rate, as in rule.Drift
	// mostTravel is how long a write may travel that goes by an estimate, before a store that can tell refuses it.
	mostTravel = 100 * time.Millisecond
)

// now estimates the store's clock at a time of this machine's.
func (r remembered) now(at time.Duration) (earliest, latest time.Duration) {
	since, longest := max(at-r.got, 0), max(at-r.sent, 0)
	return r.Clock + since - since/rate, r.Clock + longest + longest/rate
}

// serves reports whether an operation may be carried out on the record at a time of this machine's.
func (r remembered) serves(op node.Op, at time.Duration) bool {
	if op == node.Release {
		return at-r.sent < recentLife
	}
	earliest, latest := r.now(at)
	return r.Exact && r.Votes && latest-earliest <= MostLate
}

// take returns the record of a stripe, which is forgotten here.
func (r *recent) take(stripe int) (m remembered, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok = r.records[stripe]
	delete(r.records, stripe)
	return m, ok
}

// saved remembers a record, after which no write of before can be carried out any more.
func (r *recent) saved(stripe int, m remembered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.doubts, stripe)
	if r.records == nil || len(r.records) >= mostRecent {
		r.records = make(map[int]remembered)
	}
	if m.size() <= largeRecent {
		r.records[stripe] = m
	}
}

// doubt notes that a write of a stripe has an unknown outcome.
func (r *recent) doubt(stripe int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doubts == nil {
		r.doubts = make(map[int]bool)
	}
	r.doubts[stripe] = true
}

// doubted reports whether a write of a stripe may still be on its way.
func (r *recent) doubted(stripe int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doubts[stripe]
}
