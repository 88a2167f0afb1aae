package cas

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node/engine"
)

// overlap is by how much notices may be late: they carry a time from before their record was
// written.
const overlap = time.Second

// Hearing is a client that listens, to a Store that attends to it. Its methods are called from one
// goroutine at a time, while Attend runs.
type Hearing struct {
	listener *engine.Listener
	line     *line

	told   map[notice]bool
	newest time.Duration // of the notices that were heard
	floor  time.Duration // what is not newer was heard
}

// Client returns the identity with which the names of the client's waiters begin: see node.Place.
func (h *Hearing) Client() string { return h.listener.Client }

// Begun says that the client is one that Reachable finds, and that the store's clock shows now, or
// did a moment ago. What is written to a record from then on has to be heard.
func (h *Hearing) Begun(now time.Duration) {
	h.newest = max(h.newest, now-overlap)
	h.floor = h.newest - overlap
	h.listener.Begun()
}

// Heard takes the notices of a record, new ones and old ones: the Notices of the stripe's Record.
// It may be given the same ones again, and those of other clients, by which it knows that queues
// move.
func (h *Hearing) Heard(stripe int, notices []byte) {
	for _, n := range decodeNotices(notices) {
		if h.told[n] || n.at <= h.floor {
			continue
		}
		h.told[n] = true
		h.newest = max(h.newest, n.at)
		h.line.moved(stripe)
		h.listener.Tell(n.text)
	}
}

// Tell passes on one notice, or "" if some may have been missed, for a store that hears each notice
// once. Such a store calls neither Heard nor Looked. A text that is no notice for this client is
// dropped.
func (h *Hearing) Tell(notice string) { h.listener.Tell(notice) }

// Looked says that everything was heard that was written until a moment ago. Now is what the
// store's clock shows, 0 if that is not known. After a clock was set back, what comes is older than
// what was heard.
func (h *Hearing) Looked(now time.Duration) {
	if now != 0 {
		h.newest = min(h.newest, now)
	}
	h.floor = h.newest - overlap
	for n := range h.told {
		if n.at <= h.newest-overlap {
			delete(h.told, n)
		}
	}
}

// Floor returns the time, by the store's clock, from which on notices are new, for a store that is
// asked for them.
func (h *Hearing) Floor() time.Duration { return h.floor }

// Stripes returns where the client's waiters are, at most 64 of them: notices of others in these
// stripes say when to ask again.
func (h *Hearing) Stripes() []int { return h.line.stripes() }

// Rest returns for how long it is not worth asking, as Pause waits.
func (h *Hearing) Rest() time.Duration { return h.line.pause() }

// Pause waits, for a store that is asked, until it is worth asking again. That is after a
// millisecond if a waiter may be next, after seconds if none is. It waits no longer than most, and
// ends with ctx, whose error it returns.
func (h *Hearing) Pause(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(min(h.Rest(), most))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.line.changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
