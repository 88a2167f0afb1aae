package cas

import (
	"sync"
	"time"
)

// recent has the records that this process has saved last. A release is decided on one of them and
// is a single Save: if another client has changed the record, that fails. A promise is made so only
// with Config.Exact. Elsewhere it takes the store's clock and its mark of admission as they are.
type recent struct {
	mu      sync.Mutex
	records map[int]remembered
	doubts  map[int]bool // stripes with a write that may still be on its way
	avoid   map[int]int  // for how many operations a stripe is read, since others are at it
}

// remembered is a record, and when the store's clock was read for it.
type remembered struct {
	Loaded
	at time.Duration // by this machine's clock
}

const (
	mostRecent  = 1024
	largeRecent = 4 << 10 // bytes: such a record has other names, or waiters, and changes all the time
	recentLife  = time.Minute
)

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

// distrust is for how many operations a stripe is read after what was remembered was wrong.
// Such a write costs as much as one that succeeds.
const distrust = 8

// wrong notes that another client has changed a stripe.
func (r *recent) wrong(stripe int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.avoid == nil || len(r.avoid) >= mostRecent {
		r.avoid = make(map[int]int)
	}
	r.avoid[stripe] = distrust
}

// avoided reports whether a stripe is to be read.
func (r *recent) avoided(stripe int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.avoid[stripe]
	if left > 0 {
		r.avoid[stripe]--
	}
	return left > 0
}
