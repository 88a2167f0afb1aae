package zknode

import (
	"sync"
	"time"

	"github.com/fenlock/fenlock/node/rule"
)

// sightings are the clock of the node: what this client has seen in each stripe, and since when.
//
// A stripe has a clock of its own, whose time is in its znode. A write moves it on by as long as
// its client has seen the znode unchanged, by the client's own monotonic clock. So it is never
// faster than time, and nothing but the rate of a clock counts. It stands still while no client
// looks. So a lease is also over
//
//   - for a client that has seen it unchanged for all that was left of it;
//   - if the session has ended in which it was written. The session outlives each lease that was
//     written in it: see sessionSlack and Node.Close.
type sightings struct {
	mu      sync.Mutex
	all     map[int]*sighting
	session int64 // in which this client has written last
}

// sighting is what was seen of a stripe.
type sighting struct {
	memory string
	at     time.Duration // its clock: with the memory, no other write has it
	since  time.Duration // when it was seen first, by now()
	parts  map[part]*seenPart
	own    map[part]own
}

// seenPart is a part of a lease, and what was left of it when it was seen first.
type seenPart struct {
	writer
	since, left time.Duration
	asked       time.Duration // when its session was asked about
	gone        bool          // the session has ended, and never comes back
}

// own is a part that this client has written, or may have, and the timer that has it looked after.
type own struct {
	at    time.Duration // as written by all that was seen
	due   time.Duration // when the write was made that the timer is of
	timer *time.Timer
}

func (p *seenPart) over(t time.Duration) bool {
	return p.gone || t-p.since >= p.left+rule.Drift(p.left)
}

// askEvery is how often a client asks whether the session of a lease is there.
const askEvery = time.Second

// load takes what was read of a stripe just now. It returns what the stripe's clock shows, at
// least, and which parts of leases are over. Ask are the sessions of the others that are not known
// to live. A stripe that is not there has no clock yet: another client may make it with an earlier
// one.
func (s *sightings) load(stripe int, z znode) (clock time.Duration, over map[part]bool, ask map[part]writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, one := now(), s.all[stripe]
	clock = z.at + time.Microsecond // a write takes longer
	if !z.there {
		return clock, nil, nil
	}
	if one == nil || one.memory != z.memory || z.at > one.at {
		one = s.replace(stripe, z, t)
	}
	over, ask = make(map[part]bool), make(map[part]writer)
	if z.at < one.at {
		return clock, over, ask // it is old
	}
	clock += (t - one.since).Truncate(time.Microsecond)
	for p, seen := range one.parts {
		if seen.over(t) {
			over[p] = true
		} else if one.own[p].at != seen.at && t-seen.asked >= askEvery {
			ask[p] = seen.writer
		}
	}
	return clock, over, ask
}

// answered takes which of the sessions that were asked about at a time are gone.
func (s *sightings) answered(stripe int, memory string, ask map[part]writer, at time.Duration, gone map[part]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[stripe]
	if one == nil || one.memory != memory {
		return
	}
	for p, w := range ask {
		if seen := one.parts[p]; seen != nil && seen.writer == w {
			seen.asked, seen.gone = at, seen.gone || gone[p]
		}
	}
}

// clock returns what a stripe's clock shows, at least, by what was seen of it before.
func (s *sightings) clock(stripe int, z znode) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[stripe]; one != nil && one.memory == z.memory && one.at == z.at {
		return z.at + (now() - one.since).Truncate(time.Microsecond)
	}
	return z.at
}

// replace begins a sighting, with what of the last one is there still. What this client has written
// since may have been lost: what was there before is its own as well.
func (s *sightings) replace(stripe int, z znode, t time.Duration) *sighting {
	one, old := &sighting{memory: z.memory, at: z.at, since: t, parts: make(map[part]*seenPart), own: make(map[part]own)},
		s.all[stripe]
	if old == nil {
		old = &sighting{}
	}
	parts, _ := z.parts()
	for _, w := range parts {
		one.parts[w.part] = &seenPart{writer: w.writer, since: t, left: w.ends - z.at, asked: t - askEvery}
		if was := old.parts[w.part]; was != nil && was.writer == w.writer && old.memory == z.memory {
			one.parts[w.part] = was
		}
		if mine, is := old.own[w.part]; is && mine.at >= w.at && old.memory == z.memory {
			mine.at = w.at
			one.own[w.part] = mine
			delete(old.own, w.part)
		}
	}
	for _, gone := range old.own {
		gone.timer.Stop()
	}
	if s.all == nil {
		s.all = make(map[int]*sighting)
	}
	s.all[stripe] = one
	return one
}

// saved takes what this client has written over another znode, or may have if it is not sure. Timer
// has a part looked after.
func (s *sightings) saved(stripe int, z, over znode, changed []written, sure bool,
	timer func(p part, at, left time.Duration) *time.Timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, one := now(), s.all[stripe]
	newer := one == nil || one.memory != z.memory || z.at > one.at
	if newer && sure {
		one = s.replace(stripe, z, t)
	} else if one == nil || one.memory != z.memory {
		if !over.there {
			over.at = 0 // whatever another client makes of it is newer
		}
		one = s.replace(stripe, over, t)
	}
	for _, w := range changed {
		s.session = w.session
		if seen := one.parts[w.part]; !newer && (seen == nil || seen.writer != w.writer) {
			continue // another client was there since, and that was seen
		}
		if old, is := one.own[w.part]; is {
			old.timer.Stop()
		}
		left := w.ends - z.at
		one.own[w.part] = own{z.at, z.at, timer(w.part, z.at, left+rule.Drift(left)+time.Millisecond)}
	}
}

// has reports whether a part is there to be looked after since a write of that time.
func (s *sightings) has(stripe int, p part, at time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[stripe] != nil && s.all[stripe].own[p].due == at
}

// close stops the timers. It reports whether a lease may be there that this client has written.
func (s *sightings) close() (any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		for _, mine := range one.own {
			mine.timer.Stop()
			any = true
		}
		for _, seen := range one.parts {
			any = any || s.session != 0 && seen.session == s.session
		}
	}
	return any
}
