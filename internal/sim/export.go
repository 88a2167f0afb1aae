package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/fenlock/fenlock/internal/shell"
)

// export exports a lock, and has another process adopt it, or the same: mostly soon, sometimes
// too late, sometimes never. If the export fails, the lock is what it was.
func (u *user) export(l *lock, failed func()) {
	w, c := u.c.w, u.c
	mark := l.a.shell.Lock().OfferExport()
	l.a.shell.Lock().Extend(extended(func(f shell.Failure) {
		c.spawn(func() {
			if f.Failed() || l.ended || w.quiet {
				failed()
				return
			}
			before := l.released
			l.released = true // it ends because its holder wants it to
			e, why := l.a.shell.Lock().Export(mark)
			if why.Failed() {
				l.released = before
				failed()
				return
			}
			w.result.Exported++
			w.note("client %[1]d exports attempt %[2]d", c.id, l.id, 0, 0)
			u.rest()
			u.carry(l, e)
		})
	}))
}

// carry brings an exported lock to another process.
func (u *user) carry(l *lock, e shell.Exported) {
	w, to := u.c.w, l.c.another(e.TTL)
	trip := w.wide(e.TTL / 2)
	switch {
	case w.chance(100_000):
		return
	case w.chance(200_000):
		trip = w.between(0, 2*e.TTL)
	}
	w.at(w.now+trip, func() {
		to.at(w.now, func() {
			to.adopt(l, &e, func(adopted *lock) {
				if adopted != nil {
					once := &user{c: to, id: -1, guarded: u.guarded, once: true}
					once.work(adopted)
				}
			})
		})
	})
}

// another returns a client whose own TTL, on which rests what is promised of its locks, is no
// shorter than one.
func (c *client) another(ttl time.Duration) *client {
	if other := (*c.all)[c.w.rng.IntN(len(*c.all))]; other.ttl >= ttl {
		return other
	}
	return c
}

// adoptAgain has a process adopt a lock by a text by which it was adopted before, and released: it
// must not get it.
func (a *acquisition) adoptAgain() {
	w, to := a.c.w, a.c.another(a.text.TTL)
	to.at(w.now, func() {
		to.adopt(a.lock, a.text, func(adopted *lock) {
			if adopted != nil {
				w.check(registersSurvive, "adopted twice",
					fmt.Sprintf("client %d adopts a lock of name %d that was released", to.id, a.name))
				adopted.release(func() {})
			}
		})
	})
}

// adopt begins an adoption. The result is told once.
func (c *client) adopt(from *lock, e *shell.Exported, result func(*lock)) {
	a := &acquisition{c: c, name: from.name, shared: e.Shared, came: c.w.now, result: result, from: from,
		maxHold: e.MaxHold, text: e}
	a.onFreed = func() {
		if !c.w.quiet && c.w.chance(500_000) {
			c.spawn(a.adoptAgain)
		}
	}
	values := context.WithValue(context.Background(), caller{}, a)
	c.shell.Adopt(&a.shell, values, c.w.names[from.name], e, a)
}

// extended is told what an extension has come to.
type extended func(f shell.Failure)

func (f extended) Extended(why shell.Failure) { f(why) }
