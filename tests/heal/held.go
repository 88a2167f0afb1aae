//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock"
)

// held are the locks that must not be lost.
type held struct {
	names []string
	trace *trace

	mu     sync.Mutex
	locks  []*fenlock.Lock
	losses []loss
	what   string    // is happening
	since  time.Time // that began
}

// loss is the end of a lock that nobody released.
type loss struct {
	name  string
	when  string        // what was happening
	after time.Duration // since that began
	why   error
	said  []said // by the nodes, before
}

func newHeld(n int) *held {
	h := &held{locks: make([]*fenlock.Lock, n), trace: newTrace()}
	for i := range n {
		h.names = append(h.names, fmt.Sprintf("heal/held/%d", i))
	}
	return h
}

// acquire takes all locks within a time, so that they are not extended in step: a fault
// strikes some of them just before an extension, and others just after one.
func (h *held) acquire(ctx context.Context, l *fenlock.Locker, within time.Duration) error {
	errs := make([]error, len(h.names))
	var all sync.WaitGroup
	for i, name := range h.names {
		all.Go(func() {
			if errs[i] = sleep(ctx, within*time.Duration(i)/time.Duration(len(h.names))); errs[i] != nil {
				return
			}
			lock, err := l.Acquire(ctx, name)
			if err != nil {
				errs[i] = err
				return
			}
			h.mu.Lock()
			h.locks[i] = lock
			h.mu.Unlock()
			context.AfterFunc(lock.Context(), func() { h.ended(name, lock) })
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (h *held) ended(name string, lock *fenlock.Lock) {
	why := context.Cause(lock.Context())
	if errors.Is(why, fenlock.ErrReleased) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.losses = append(h.losses, loss{name, h.what, time.Since(h.since), why, h.trace.of(name)})
}

// phase says what happens from now on.
func (h *held) phase(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.what, h.since = what, time.Now()
}

// taken checks that a lock that somebody else acquired was lost before.
func (h *held) taken(i int, by *fenlock.Lock) error {
	h.mu.Lock()
	lock := h.locks[i]
	h.mu.Unlock()
	switch {
	case lock.Remaining() > 0 && by.Remaining() > 0:
		return fmt.Errorf("%s has two holders", lock.Name())
	case by.Token() <= lock.Token():
		return fmt.Errorf("%s: token %d after %d", lock.Name(), by.Token(), lock.Token())
	}
	return nil
}

// lost returns the losses so far.
func (h *held) lost() []loss {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.losses)
}

// explain says why locks were lost, once for all those that were lost alike, and what
// the nodes had answered to the first of them.
func explain(losses []loss) (texts []string) {
	alike := map[string][]loss{}
	for _, l := range losses {
		text := fmt.Sprintf("%s: %s", l.when, strings.ReplaceAll(l.why.Error(), strconv.Quote(l.name), "(name)"))
		if len(alike[text]) == 0 {
			texts = append(texts, text)
		}
		alike[text] = append(alike[text], l)
	}
	for i, text := range texts {
		some := alike[text]
		texts[i] = fmt.Sprintf("%d lost, %v after %s", len(some), some[0].after.Round(time.Millisecond), text)
		for _, line := range rounds(some[0].said) {
			texts[i] += "\n            " + line
		}
	}
	return texts
}

// release releases what is left. What was lost has been counted.
func (h *held) release(ctx context.Context) error {
	errs := make([]error, len(h.locks))
	var all sync.WaitGroup
	for i, lock := range h.locks {
		if lock == nil {
			continue
		}
		all.Go(func() {
			if err := lock.Release(ctx); err != nil && !errors.Is(err, fenlock.ErrLost) {
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
