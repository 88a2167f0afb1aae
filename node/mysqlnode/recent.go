package mysqlnode

import (
	"sync"
	"time"
)

// recent has the rows that this process has written last, so that a release, which
// usually follows its own acquisition, need not read them again: if another client has
// changed the row, it has another version.
type recent struct {
	mu   sync.Mutex
	rows map[int]written
}

type written struct {
	stripe
	server *session
	now    time.Duration // when it was read, on the server's clock
	at     time.Time     // and on this machine's
}

const (
	mostRecent  = 1024
	largeRecent = 4 << 10 // bytes: such a row has other names, or waiters, and changes all the time
	recentLife  = time.Minute
)

// take returns a row, which is forgotten here.
func (r *recent) take(number int) (row written, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, ok = r.rows[number]
	delete(r.rows, number)
	return row, ok && time.Since(row.at) < recentLife
}

func (r *recent) put(row written) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil || len(r.rows) >= mostRecent {
		r.rows = make(map[int]written)
	}
	if len(row.leases)+len(row.waiters)+len(row.notices) <= largeRecent {
		r.rows[row.number] = row
	}
}
