package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
)

// longTTL is so long that no test waits for the end of such a lease. A waiter gets the lock because
// it is notified, or because it looks by itself.
const longTTL = 2 * time.Minute

// allowLong makes a group one whose leases may be long ones.
func allowLong(servers []*testserver.Server) {
	for _, s := range servers {
		s.Do("HSET", "fenlock-registers:fenlock:", "maxttl", fmt.Sprint(longTTL.Milliseconds()))
	}
}

// long makes a Locker one for such a group.
func long(c *fenlock.Config) {
	c.TTL, c.MaxTTL, c.NodeTimeout = longTTL, longTTL, 2*time.Second
}

// room is what a lock protects: one visitor at a time, with growing tokens.
type room struct {
	ctx     context.Context // of all visitors
	waiting sync.WaitGroup

	mu     sync.Mutex
	inside string
	last   fence.Token
	order  []string
	errs   []string
}

// newRoom returns a room. If the test fails, for whatever reason, it tells what
// happened in there.
func newRoom(t testing.TB) *room {
	r := &room{ctx: bounded(t)}
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if t.Failed() {
			t.Logf("served %v, errors %q", r.order, r.errs)
		}
	})
	return r
}

// visit enters with a lock, stays for a moment, leaves and releases.
func (r *room) visit(who string, lock *fenlock.Lock) {
	r.enter(who, lock.Token())
	time.Sleep(3 * time.Millisecond)
	r.leave()
	if err := lock.Release(context.Background()); err != nil {
		r.fail("%s: release: %v", who, err)
	}
}

func (r *room) enter(who string, token fence.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside != "" {
		r.errs = append(r.errs, fmt.Sprintf("%s enters while %s is inside", who, r.inside))
	}
	if token <= r.last {
		r.errs = append(r.errs, fmt.Sprintf("%s has token %d after %d", who, token, r.last))
	}
	r.inside, r.last = who, token
	r.order = append(r.order, who)
}

func (r *room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside = ""
}

func (r *room) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, fmt.Sprintf(format, args...))
}

// check fails the test unless these were inside, in this order.
func (r *room) check(t testing.TB, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.errs {
		t.Error(e)
	}
	if !slices.Equal(r.order, want) {
		t.Errorf("served %v, want %v", r.order, want)
	}
}

// waits acquires in the background and visits the room. waiting is for the end of all
// such visits, the channel for that of this one.
func (r *room) waits(who string, l *fenlock.Locker, name string) <-chan struct{} {
	done := make(chan struct{})
	r.waiting.Go(func() {
		defer close(done)
		lock, err := l.Acquire(r.ctx, name)
		if err != nil {
			r.fail("%s: %v", who, err)
			return
		}
		r.visit(who, lock)
	})
	return done
}

// lineOf is the key of the line of a name.
func lineOf(name string) string { return "fenlock-line:fenlock:" + name }

// awaitQueue waits until so many are in the queue on every server that is up, and can
// be called there.
func awaitQueue(t testing.TB, servers []*testserver.Server, line string, n int) {
	t.Helper()
	awaitQueueOf(t, servers, line, n, n)
}

// awaitQueueOf is awaitQueue for so many at least and at most. The holder may be in the queue of a
// server that it did not need, until it releases.
func awaitQueueOf(t testing.TB, servers []*testserver.Server, line string, least, most int) {
	t.Helper()
	eventually(t, func() error {
		for _, s := range servers {
			if s.Pid() == 0 {
				continue
			}
			members := strings.Fields(strings.Trim(s.Do("ZRANGE", line, "0", "-1"), "[]"))
			if len(members) < least || len(members) > most {
				return fmt.Errorf("%s: %d in the queue, want %d to %d", s.Addr(), len(members), least, most)
			}
			for _, m := range members {
				channel := "fenlock-wake:" + m[:32]
				if got := s.Do("PUBSUB", "NUMSUB", channel); got != "["+channel+" 1]" {
					return fmt.Errorf("%s: %s cannot be called: %s", s.Addr(), m, got)
				}
			}
		}
		return nil
	})
}

// nothingLeft waits until the servers have nothing but their registers.
func nothingLeft(t testing.TB, servers []*testserver.Server) {
	t.Helper()
	eventually(t, func() error {
		for _, s := range servers {
			if keys := s.Do("KEYS", "*"); keys != "[fenlock-registers:fenlock:]" {
				left := ""
				for _, key := range strings.Fields(strings.Trim(keys, "[]")) {
					if strings.HasPrefix(key, "fenlock:") {
						left += fmt.Sprintf("; %s is %s's for %s ms", key, s.Do("GET", key), s.Do("PTTL", key))
					}
				}
				return fmt.Errorf("%s: left behind: %s%s", s.Addr(), keys, left)
			}
		}
		return nil
	})
}
