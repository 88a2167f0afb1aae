package mysqlnode

import (
	"context"
	"sync"
	"time"
)

// turns lets one operation of this process at a time work on a stripe: two would only find
// each other's version, and the second would begin again.
type turns struct {
	mu   sync.Mutex
	busy map[int]chan struct{} // by stripe; closed when the turn is over
}

// take waits for the turn of a stripe, and returns what ends it.
func (t *turns) take(ctx context.Context, stripe int) (leave func(), err error) {
	for {
		t.mu.Lock()
		before := t.busy[stripe]
		if before == nil {
			if t.busy == nil {
				t.busy = make(map[int]chan struct{})
			}
			mine := make(chan struct{})
			t.busy[stripe] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.busy, stripe)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

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
