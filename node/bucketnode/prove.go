package bucketnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/engine"
)

// proof finds out, by trying, whether a store keeps the conditions of writes. Some ignore them in
// silence, and would grant one name to all that ask at once.
type proof struct {
	*object
	run *lane

	mu     sync.Mutex
	proved bool
	at     time.Duration // when, by this machine's clock
}

// racers is how many writes over one version are sent at once.
const racers = 4

// done reports whether this process has seen lately that the store keeps conditions, and how long
// ago.
func (p *proof) done() (age time.Duration, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age = clock.Now() - p.at
	return age, p.proved && age < proofLife
}

// of returns nil if a client has lately proved it through the endpoint of this one. Otherwise this
// one does.
func (p *proof) of(ctx context.Context, snap *snapshot) error {
	if at, is := snap.state.Proved[p.endpoint]; is && snap.clock-at < proofLife {
		return nil
	}
	return p.now(ctx)
}

// now returns nil if this process has proved it.
func (p *proof) now(ctx context.Context) error {
	if _, done := p.done(); done {
		return nil
	}
	return p.anew(ctx)
}

// anew returns nil if it is so now.
func (p *proof) anew(ctx context.Context) error {
	_, err := p.run.join(ctx, &call{})
	return err
}

// proveFor is what the lane of proofs does.
func (p *proof) proveFor(ctx context.Context, calls []*call) {
	err := p.try(ctx)
	for _, c := range calls {
		c.err = err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.proved, p.at = true, clock.Now()
	}
}

// try writes to an object of its own, and removes it.
func (p *proof) try(ctx context.Context) error {
	key := p.prefix + "proof-" + rand.Text()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		p.remove(ctx, key) // what stays is small, and says what it is
	}()
	put := func(etag string) (string, error) {
		text := "fenlock has tried here whether the store keeps the conditions of writes: " + rand.Text()
		return p.put(ctx, key, []byte(text), etag)
	}
	if err := refused(put(absent))("If-Match where there is no object"); err != nil {
		return err
	}
	first, err := put("")
	if err != nil {
		return fmt.Errorf("create an object: %w", err)
	}
	if err := refused(put(""))("If-None-Match: *"); err != nil {
		return err
	}
	second, err := put(first)
	if err != nil {
		if errors.Is(err, cas.ErrConflict) {
			err = engine.Misconfiguredf("the store refuses a write with If-Match and the ETag that it has: %w", err)
		}
		return err
	}
	if first == second {
		return engine.Misconfiguredf("the store gives two contents of an object one ETag, which a write compares")
	}
	if err := refused(put(first))("If-Match"); err != nil {
		return err
	}
	return race(func() error { _, err := put(second); return err })
}

// absent is the ETag of no object.
const absent = "d41d8cd98f00b204e9800998ecf8427e"

// refused returns nil if a write was refused for its condition.
func refused(_ string, err error) func(condition string) error {
	return func(condition string) error {
		switch {
		case err == nil:
			return engine.Misconfiguredf("the store ignores the condition of a write (%s): it would grant a lock to all that ask at once, so nothing is granted", condition)
		case errors.Is(err, cas.ErrConflict):
			return nil
		}
		return fmt.Errorf("try %s: %w", condition, err)
	}
}

// race writes several times over one version, at once. At most one may succeed.
func race(write func() error) error {
	errs := make([]error, racers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = write() })
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		}
	}
	if won > 1 {
		return engine.Misconfiguredf("the store carries out %d writes over one version at once: its conditions do not exclude each other, so nothing is granted", won)
	}
	return nil
}
