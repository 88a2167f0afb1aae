package cas

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// Clock is the clock of a store that has none. Its records are Timed.
//
// A stripe has a clock of its own, whose time is in its record. A write moves it on by as long as
// its client has seen the record unchanged, by the client's own monotonic clock. So it is never
// faster than time, and nothing but the rate of a clock counts. It stands still while no client
// looks. So a part of a lease is also over
//
//   - for a client that has seen it unchanged for all that was left of it;
//   - if the session has ended that it belongs to. A session is what a store ends by itself after
//     a while. It has to outlive each part that was written in it: the adapter makes sure of that.
//
// A client removes what it has written itself when the time is over, since its session may live on.
// A refusal has to be a write (Config.Behind), or a waiter would count too long by the clock that
// it is told. The search in model_test.go finds two holders without any of these rules, and none
// with all.
//
// Make one with NewClock. It is safe for concurrent use.
type Clock struct {
	store Store
	life  *engine.Lifetime
	ended func(ctx context.Context, memory string, sessions []string) (ended []bool, err error)
	again func(session string) bool

	mu      sync.Mutex
	all     map[int]*sighting
	session string // in which this client has written last
}

// sighting is what was seen of a stripe.
type sighting struct {
	memory string
	at     time.Duration // its clock: with the memory, no other write has it
	since  time.Duration // when it was seen first, by now()
	parts  map[Part]*seenPart
	own    map[Part]own
}

// seenPart is a part of a lease, and what was left of it when it was seen first.
type seenPart struct {
	Writer
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

// NewClock returns the clock of a store. Ended asks the store which sessions have ended. It makes
// sure that the store with that memory has answered: to another one, they are none. Again says of
// which ones there may be another of the same name: what is known of these is not remembered. Nil
// is none.
func NewClock(s Store, life *engine.Lifetime,
	ended func(ctx context.Context, memory string, sessions []string) ([]bool, error),
	again func(session string) bool) *Clock {
	return &Clock{store: s, life: life, ended: ended, again: again, all: make(map[int]*sighting)}
}

// now is the clock by which this client knows that time has passed: it never steps.
func now() time.Duration { return clock.Now() }

// Load fills in what a Store's Load returns of a record that was read just now: the record, the
// clock and Closer.
func (c *Clock) Load(l *Loaded, stripe int, z Timed) error {
	at, over, ask := c.load(stripe, z)
	l.Record, l.Clock = z.Record, at
	err := drop(&l.Record, over)
	if r := l.Record; l.Votes && len(ask) > 0 {
		l.Closer = func(ctx context.Context) (Record, error) {
			err := errors.Join(c.closer(ctx, stripe, z.Memory, ask, over), drop(&r, over))
			return r, err
		}
	}
	return err
}

// load takes what was read of a stripe just now. It returns what the stripe's clock shows, at
// least, and which parts of leases are over. Ask are the sessions of the others that are not known
// to live. A stripe that is not there has no clock yet: another client may make it with an earlier
// one.
func (c *Clock) load(stripe int, z Timed) (clock time.Duration, over map[Part]bool, ask map[Part]Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, one := now(), c.all[stripe]
	clock = z.At + time.Microsecond // a write takes longer
	if !z.There {
		return clock, nil, nil
	}
	if one == nil || one.memory != z.Memory || z.At > one.at {
		one = c.replace(stripe, z, t)
	}
	over, ask = make(map[Part]bool), make(map[Part]Writer)
	if z.At < one.at {
		return clock, over, ask // it is old
	}
	clock += (t - one.since).Truncate(time.Microsecond)
	for p, seen := range one.parts {
		if seen.over(t) {
			over[p] = true
		} else if one.own[p].at != seen.At && t-seen.asked >= askEvery {
			ask[p] = seen.Writer
		}
	}
	return clock, over, ask
}

// closer asks which sessions have ended. One that has was there when the lease was written.
func (c *Clock) closer(ctx context.Context, stripe int, memory string, ask map[Part]Writer, over map[Part]bool) error {
	var parts []Part
	var sessions []string
	for p, w := range ask {
		parts, sessions = append(parts, p), append(sessions, w.Session)
	}
	at := now()
	ended, err := c.ended(ctx, memory, sessions)
	if err != nil {
		return err
	}
	for i, p := range parts {
		over[p] = ended[i]
	}
	c.answered(stripe, memory, ask, at, over)
	return nil
}

// answered takes which of the sessions that were asked about at a time are gone.
func (c *Clock) answered(stripe int, memory string, ask map[Part]Writer, at time.Duration, gone map[Part]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.all[stripe]
	if one == nil || one.memory != memory {
		return
	}
	for p, w := range ask {
		if gone[p] && c.again != nil && c.again(w.Session) {
			continue
		}
		if seen := one.parts[p]; seen != nil && seen.Writer == w {
			seen.asked, seen.gone = at, seen.gone || gone[p]
		}
	}
}

// Listed fills in what a Store's List tells of a record: the record, and the clock by what was seen
// of it before. No client may ever write there again, so a lease does not count if its session has
// ended: ended is asked about each.
func (c *Clock) Listed(l *Loaded, stripe int, z Timed, ended func(session string) (bool, error)) error {
	l.Record, l.Clock = z.Record, c.at(stripe, z)
	parts, err := z.Parts()
	over := make(map[Part]bool)
	for _, w := range parts {
		if err == nil && w.Session != "" {
			over[w.Part], err = ended(w.Session)
		}
	}
	return errors.Join(err, drop(&l.Record, over))
}

// at returns what a stripe's clock shows, at least, by what was seen of it before.
func (c *Clock) at(stripe int, z Timed) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.all[stripe]; one != nil && one.memory == z.Memory && one.at == z.At {
		return z.At + (now() - one.since).Truncate(time.Microsecond)
	}
	return z.At
}

// replace begins a sighting, with what of the last one is there still. What this client has written
// since may have been lost: what was there before is its own as well.
func (c *Clock) replace(stripe int, z Timed, t time.Duration) *sighting {
	one, old := &sighting{memory: z.Memory, at: z.At, since: t, parts: make(map[Part]*seenPart), own: make(map[Part]own)},
		c.all[stripe]
	if old == nil {
		old = &sighting{}
	}
	parts, _ := z.Parts()
	for _, w := range parts {
		one.parts[w.Part] = &seenPart{Writer: w.Writer, since: t, left: w.Ends - z.At, asked: t - askEvery}
		if was := old.parts[w.Part]; was != nil && was.Writer == w.Writer && old.memory == z.Memory {
			one.parts[w.Part] = was
		}
		if mine, is := old.own[w.Part]; is && mine.at >= w.At && old.memory == z.Memory {
			mine.at = w.At
			one.own[w.Part] = mine
			delete(old.own, w.Part)
		}
	}
	for _, gone := range old.own {
		gone.timer.Stop()
	}
	c.all[stripe] = one
	return one
}

// Saved takes what this client has written over another record, or may have if it is not sure. Each
// part that was changed is removed when it is over.
func (c *Clock) Saved(stripe int, z, over Timed, changed []Written, sure bool) {
	c.saved(stripe, z, over, changed, sure, func(p Part, at, left time.Duration) *time.Timer {
		return time.AfterFunc(left, func() { c.life.Spawn(func() { c.sweep(stripe, p, at) }) })
	})
}

func (c *Clock) saved(stripe int, z, over Timed, changed []Written, sure bool,
	timer func(p Part, at, left time.Duration) *time.Timer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, one := now(), c.all[stripe]
	newer := one == nil || one.memory != z.Memory || z.At > one.at
	if newer && sure {
		one = c.replace(stripe, z, t)
	} else if one == nil || one.memory != z.Memory {
		if !over.There {
			over.At = 0 // whatever another client makes of it is newer
		}
		one = c.replace(stripe, over, t)
	}
	for _, w := range changed {
		c.session = w.Session
		if seen := one.parts[w.Part]; !newer && (seen == nil || seen.Writer != w.Writer) {
			continue // another client was there since, and that was seen
		}
		if old, is := one.own[w.Part]; is {
			old.timer.Stop()
		}
		left := w.Ends - z.At
		one.own[w.Part] = own{z.At, z.At, timer(w.Part, z.At, left+rule.Drift(left)+time.Millisecond)}
	}
}

// sweepPause is between two attempts to remove a lease, each of which has a second. A store may be
// out for long: each pause is twice as long as the last, up to mostSweepPause.
const (
	sweepPause     = 200 * time.Millisecond
	mostSweepPause = 5 * time.Second
)

// sweep removes what is over in a stripe, as long as it has a lease that this client has written at
// that time.
func (c *Clock) sweep(stripe int, p Part, at time.Duration) {
	for pause := sweepPause; c.life.Err() == nil && c.has(stripe, p, at); pause = min(2*pause, mostSweepPause) {
		ctx, cancel := context.WithTimeout(c.life, time.Second)
		l, err := c.store.Load(ctx, stripe)
		if err == nil && l.Votes { // a write of this lease that is on its way fails then
			c.store.Save(ctx, stripe, l.Record, l)
		}
		cancel()
		if c.has(stripe, p, at) {
			engine.Pause(c.life, pause)
		}
	}
}

// has reports whether a part is there to be looked after since a write of that time.
func (c *Clock) has(stripe int, p Part, at time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[stripe] != nil && c.all[stripe].own[p].due == at
}

// Close stops the timers. It reports whether a lease may be there that this client has written, or
// one of the session in which it has written last.
func (c *Clock) Close() (any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		for _, mine := range one.own {
			mine.timer.Stop()
			any = true
		}
		for _, seen := range one.parts {
			any = any || c.session != "" && seen.Session == c.session
		}
	}
	return any
}

// Due reports whether something that this client has written is over, or nearly, and not removed
// yet. It is for tests.
func (c *Clock) Due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		for p, seen := range one.parts {
			if one.own[p].at == seen.At && seen.over(now()+20*time.Millisecond+rule.Drift(seen.left)) {
				return true
			}
		}
	}
	return false
}
