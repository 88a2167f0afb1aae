//go:build linux

package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/faults/draw"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/resource"
	"github.com/fenlock/fenlock/tests/history"
)

// user is what a client process does all day. It takes a lock, counts up what the lock protects,
// and lets go of it. It gives up at any point.
type user struct {
	config   Config
	locker   library.Locker
	resource *resource.Client
	log      *eventLog
	rng      *rand.Rand
	op       int // number of the last acquisition
	slot     func(ctx context.Context, wait bool) (int, library.Lease, error)
}

// patience bounds a call whose context is not cancelled earlier. It is far more
// than a fault lasts.
const patience = 20 * time.Second

func newUser(config Config, l library.Locker, log *eventLog) *user {
	return &user{
		config: config, locker: l, log: log, resource: resource.NewClient(config.Resource),
		rng: rand.New(rand.NewPCG(config.Seed, uint64(config.Client))),
	}
}

// tenure is one acquisition.
type tenure struct {
	*user
	name  string
	op    int
	lease library.Lease
	// shared: others may share the name, and nothing is written.
	shared bool
	ended  bool         // as noted
	endAt  atomic.Int64 // when its context ended, 0 if it has not
	// reckless: it goes on writing when the lock has ended.
	reckless bool
	// spoilt: it is not known whether a write was done, and so the resource must not be written
	// again. A late write could not be told from a newer one.
	spoilt bool
}

func (u *user) begin(name string) *tenure {
	u.op++
	return &tenure{user: u, name: name, op: u.op, reckless: u.config.Reckless && u.rng.IntN(4) == 0}
}

func (t *tenure) note(e history.Event) {
	e.Client, e.Op, e.Name = t.config.Client, t.op, t.name
	if t.lease != nil {
		e.Token = uint64(t.lease.Token())
	}
	t.log.write(e)
}

// noteUntil notes an event with the end of the validity. The clock is read
// before the lock is asked what is left, so that a pause in between makes the
// claim shorter, never longer.
func (t *tenure) noteUntil(kind history.Kind) {
	now := clock.Now()
	t.note(history.Event{At: int64(now), Kind: kind, Until: int64(now + t.lease.Remaining())})
}

func (t *tenure) noteError(kind history.Kind, err error) {
	e := history.Event{Kind: kind}
	if err != nil {
		e.Text = err.Error()
	}
	t.note(e)
}

// round is one round of the user. It ends soon when ctx does.
func (u *user) round(ctx context.Context) {
	u.roundOf(ctx, false, func(t *tenure) { t.hold(ctx, u.logUniform(u.config.Shortest, u.config.Longest)) })
}

// roundOf is a round with one lock, under which work is done.
func (u *user) roundOf(ctx context.Context, shared bool, work func(t *tenure)) {
	u.sleep(ctx, u.logUniform(100*time.Microsecond, 100*time.Millisecond))
	t := u.begin(u.config.Names[u.rng.IntN(len(u.config.Names))])
	t.shared = shared
	wait := u.rng.IntN(3) > 0
	attempt, cancel := u.impatient(ctx, 3)
	ok := t.acquire(attempt, wait)
	cancel()
	if !ok {
		u.sleep(ctx, u.logUniform(time.Millisecond, 50*time.Millisecond))
		return
	}
	work(t)
	late := t.lateWrite()
	t.release(u.impatient(context.Background(), 6))
	late()
}

// everyName acquires each name once, when nothing fails any more.
func (u *user) everyName() {
	for _, name := range u.shuffled() {
		u.once(name, false)
	}
}

// shuffled returns the names in any order.
func (u *user) shuffled() (names []string) {
	for _, i := range u.rng.Perm(len(u.config.Names)) {
		names = append(names, u.config.Names[i])
	}
	return names
}

// once acquires a name, uses the resource and lets go.
func (u *user) once(name string, shared bool) {
	t := u.begin(name)
	t.shared = shared
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if t.acquire(ctx, true) {
		t.count(ctx)
		t.release(context.WithTimeout(context.Background(), patience))
	}
}

// impatient returns a context that is cancelled at a random moment in one of so many cases. In the
// others it is cancelled after more time than any client needs.
func (u *user) impatient(ctx context.Context, oneOf int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	if u.rng.IntN(oneOf) > 0 {
		return ctx, cancel
	}
	timer := time.AfterFunc(u.logUniform(10*time.Microsecond, 3*time.Second), cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

func (t *tenure) acquire(ctx context.Context, wait bool) bool {
	t.note(history.Event{Kind: history.Acquire, Shared: t.shared})
	call := t.locker.TryAcquire
	switch {
	case t.shared:
		call = func(ctx context.Context, name string) (library.Lease, error) {
			return t.full().AcquireShared(ctx, name, wait)
		}
	case wait:
		call = t.locker.Acquire
	}
	return t.got(call(ctx, t.name))
}

// got notes what an acquisition came to, and reports whether the lock is there.
func (t *tenure) got(lease library.Lease, err error) bool {
	if err != nil {
		t.noteError(history.Failed, err)
		return false
	}
	t.lease = lease
	context.AfterFunc(lease.Context(), func() { t.endAt.Store(int64(clock.Now())) })
	t.noteUntil(history.Acquired)
	return true
}

// hold works under the lock until ctx ends, the lock does, or d has passed.
func (t *tenure) hold(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if !t.reckless {
		defer context.AfterFunc(t.lease.Context(), cancel)()
	}
	for ctx.Err() == nil && t.step(ctx) {
		t.noteHolds()
	}
	t.seesEnd()
}

// step does something under the lock, and reports whether the tenure may go on.
func (t *tenure) step(ctx context.Context) bool {
	switch t.rng.IntN(4) {
	case 0:
		t.extend(ctx)
	case 1:
		t.sleep(ctx, t.logUniform(time.Millisecond, t.config.TTL/2))
	default:
		return t.count(ctx)
	}
	return true
}

// noteHolds notes that the lock is held, or that it has ended.
func (t *tenure) noteHolds() {
	if !t.seesEnd() {
		t.noteUntil(history.Holds)
	}
}

// seesEnd reports whether the lock has ended, and notes it the first time.
func (t *tenure) seesEnd() bool {
	ctx := t.lease.Context()
	if ctx.Err() == nil {
		return false
	}
	if !t.ended {
		t.ended = true
		t.note(history.Event{At: t.endAt.Load(), Kind: history.Ended, Text: context.Cause(ctx).Error()})
	}
	return true
}

func (t *tenure) extend(ctx context.Context) {
	ctx, cancel := t.impatient(ctx, 3)
	defer cancel()
	t.note(history.Event{Kind: history.Extend})
	if err := t.lease.Extend(ctx); err != nil {
		t.noteError(history.ExtendFailed, err)
		return
	}
	t.noteUntil(history.Extended)
}

// count adds one to the resource, or reads it if the name is shared, and reports whether the
// tenure may go on using it.
func (t *tenure) count(ctx context.Context) bool {
	value, err := t.use(history.Event{Kind: history.ReadValue})
	if err != nil {
		return false
	}
	t.sleep(ctx, t.logUniform(10*time.Microsecond, 50*time.Millisecond))
	if ctx.Err() != nil || t.shared {
		return true // out of time, or out of the lock
	}
	return t.write(value)
}

func (t *tenure) write(base int) bool {
	_, err := t.use(history.Event{Kind: history.Wrote, Base: base, Value: base + 1})
	t.spoilt = err != nil && !errors.Is(err, resource.ErrStale)
	return err == nil
}

// lateWrite reads the resource now, and returns what writes it in a while, when the lock is
// released and others may have it. Reckless clients do that; a client that shares the name reads
// only.
func (t *tenure) lateWrite() (write func()) {
	if t.reckless && t.shared {
		return func() {
			t.sleep(context.Background(), t.logUniform(time.Millisecond, 200*time.Millisecond))
			t.use(history.Event{Kind: history.ReadValue})
		}
	}
	if !t.reckless || t.spoilt {
		return func() {}
	}
	value, err := t.use(history.Event{Kind: history.ReadValue})
	if err != nil {
		return func() {}
	}
	return func() {
		t.sleep(context.Background(), t.logUniform(time.Millisecond, 200*time.Millisecond))
		t.write(value)
	}
}

func (t *tenure) use(e history.Event) (value int, err error) {
	e.Name, e.Client, e.Op, e.Token, e.Shared = t.name, t.config.Client, t.op, uint64(t.lease.Token()), t.shared
	return t.resource.Do(e)
}

func (t *tenure) release(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	t.note(history.Event{Kind: history.Release})
	t.noteError(history.Released, t.lease.Release(ctx))
}

func (u *user) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (u *user) logUniform(low, high time.Duration) time.Duration {
	return draw.LogUniform(u.rng, low, high)
}
