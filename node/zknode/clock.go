package zknode

import (
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// storeClock is what is known of the leader's wall clock: servers write it beside each
// change. It orders waiters, and ends queues and reservations, which promise nothing. No lease
// ends by it.
type storeClock struct {
	mu      sync.Mutex
	written time.Duration
	at      time.Time
	epoch   int64 // of the leader
}

// clockAge is how long a reading is relied on.
const clockAge = 30 * time.Second

// saw takes when a change was made, of which an answer with this zxid tells.
func (c *storeClock) saw(written time.Duration, zxid int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if epoch := zxid >> 32; epoch != c.epoch || written > c.written+now.Sub(c.at) || now.Sub(c.at) > clockAge {
		c.written, c.at, c.epoch = written, now, epoch
	}
}

// now is what the clock shows now at least, if it was read under the present leader.
func (c *storeClock) now(link *session.Link) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := time.Since(c.at)
	if c.written == 0 || passed > clockAge || link.Epoch() != c.epoch {
		return 0, false
	}
	return (c.written + passed).Truncate(time.Millisecond), true
}

// sightings are the leases of others that were seen, and since when without a change. A client that
// has seen a lease unchanged for its TTL knows that it is over. It knows so by its own clock, of
// which only the rate counts, whatever the servers' clocks show.
type sightings struct {
	mu   sync.Mutex
	seen map[string]sighting
}

type sighting struct {
	zxid   int64 // of the last change; with the holder, no other lease has it, in no other ensemble
	holder node.Holder
	since  time.Time
}

// mostSightings bounds what is remembered. A client that sees more begins anew, and waits longer.
const mostSightings = 4096

// left takes what was read of a lease, just now, and returns how long it has to be seen
// unchanged until it is over. Drift is for a clock that runs faster than the holder's.
func (s *sightings) left(name string, l lease, stat wire.Stat) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, all := time.Now(), l.ttl+rule.Drift(l.ttl)
	if old, ok := s.seen[name]; ok && old.zxid == stat.Mzxid && old.holder == l.holder {
		return all - now.Sub(old.since)
	}
	if s.seen == nil || len(s.seen) >= mostSightings {
		s.seen = make(map[string]sighting)
	}
	s.seen[name] = sighting{stat.Mzxid, l.holder, now}
	return all
}
