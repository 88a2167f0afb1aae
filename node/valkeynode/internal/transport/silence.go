package transport

import (
	"net"
	"sync"
	"time"
)

// silence is how soon a connection is closed whose server answers nothing: this long after a
// request that nothing was answered since.
const silence = 3 * time.Second

// quiet has a connection end, by its deadline for reading, whose server answers nothing for as long
// as silence while something is asked. The library notices that by a ping each second, or not at
// all. With many connections that are idle, or almost, the pings were most of what they cost. The
// zero quiet is of a new connection. It is safe for concurrent use.
type quiet struct {
	mu       sync.Mutex
	waits    bool   // a deadline is set
	late     bool   // it has passed, and the server was given a moment more
	answered uint64 // up to this one
	left     bool   // the library has set one of its own
}

// wrote tells that something may be asked now. What is asked while other answers are awaited does
// not make those come later.
func (q *quiet) wrote(c net.Conn, a *asked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, all := a.answered(); !all && !q.waits && !q.left {
		q.waits = true
		c.SetReadDeadline(time.Now().Add(silence))
	}
}

// heard tells that something came: a reply, a part of one, or a message, which answers nothing.
func (q *quiet) heard(c net.Conn, a *asked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, all := a.answered()
	if n == q.answered || q.left {
		return
	}
	q.answered, q.late = n, false
	switch {
	case !all:
		q.waits = true
		c.SetReadDeadline(time.Now().Add(silence))
	case q.waits:
		q.waits = false
		c.SetReadDeadline(time.Time{})
	}
}

// again gives the server a moment more, once, and reports whether it does. If this process stood
// still, the answers are here already.
func (q *quiet) again(c net.Conn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left || !q.waits || q.late {
		return false
	}
	q.late = true
	return c.SetReadDeadline(time.Now().Add(silence/30)) == nil
}

// leave has the library's own deadline count, until it sets none.
func (q *quiet) leave(t time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left, q.waits, q.late = !t.IsZero(), false, false
}
