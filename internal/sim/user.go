package sim

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// user is the program that locks: it takes a name, changes what the name guards,
// and gives it back, over and over. Once it is quiet it takes every name once
// more.
type user struct {
	c    *client
	id   int          // among all users
	a    *acquisition // that has not returned
	left []int        // names to be taken once it is quiet
	done bool
	once bool // it ends with the lock that it has
	*guarded
}

// guarded are the resources that the names guard: numbers that users increment.
type guarded struct {
	guard  fence.Guard
	values []int
	off    bool // the guard is
}

func (u *user) next() {
	w := u.c.w
	name, wait := w.rng.IntN(len(w.names)), w.chance(750_000)
	if w.quiet {
		if len(u.left) == 0 {
			u.done = true
			return
		}
		name, wait = u.left[0], true
	}
	w.progress.Begins(u.id, w.now)
	u.a = u.c.acquire(name, wait, w.profile.shares && w.chance(600_000), func(l *lock) {
		u.a = nil
		if l == nil {
			w.progress.Ends(u.id)
			u.rest()
			return
		}
		w.check(always, "progress", w.progress.Served(u.id, w.now))
		u.work(l)
	})
	if !w.quiet && w.chance(300_000) {
		a := u.a
		u.c.after(w.wide(3*time.Second), func() {
			if u.a == a && !w.quiet {
				u.giveUp()
			}
		})
	}
}

func (u *user) giveUp() {
	switch {
	case u.a == nil || u.a.over:
		return
	case u.a.lock == nil:
		u.c.w.count(gaveUpQueued)
	case !u.a.lock.decided:
		u.c.w.count(gaveUpTrying)
	default:
		u.c.w.count(gaveUpWaiting)
	}
	u.a.cancel()
}

func (u *user) rest() {
	w := u.c.w
	switch {
	case u.once:
	case w.quiet:
		u.c.after(w.upTo(time.Millisecond), u.next)
	case w.profile.overload: // all of them at once
		u.c.after(w.profile.pace*10-(w.now%(w.profile.pace*10)), u.next)
	case w.profile.idle:
		u.c.after(w.upTo(w.profile.rest), u.next)
	default:
		u.c.after(w.wide(w.profile.rest), u.next)
	}
}

// work uses the lock until it is lost or has been held for long enough.
func (u *user) work(l *lock) {
	w := u.c.w
	if w.quiet && len(u.left) > 0 && l.name == u.left[0] {
		u.left = u.left[1:]
	}
	end := w.now + w.wide(w.profile.hold)
	var step func()
	step = func() {
		switch {
		case l.ended || w.quiet || w.now >= end:
			l.release(u.rest)
		case w.profile.shares && !l.a.shared && w.chance(100_000):
			l.downgrade()
			u.c.after(w.wide(min(u.c.ttl/2, w.profile.hold/4)), step)
		case w.profile.hands && w.chance(150_000):
			u.export(l, step)
		case w.chance(400_000) && !l.a.shared:
			u.update(l, step)
		case w.chance(200_000):
			l.extendNow()
			fallthrough
		default:
			u.c.after(w.wide(min(u.c.ttl/2, w.profile.hold/4)), step)
		}
	}
	step()
}

// update reads the resource of a name and writes what it has read plus one. Between any two steps
// the user can be paused, and its messages can be late. An access that is not answered may still
// come, and the guard does not tell it from a later one of the same token. So the lock is given up
// then.
func (u *user) update(l *lock, then func()) {
	w, c, epoch, token, gone := u.c.w, u.c, u.c.epoch, l.token(), false
	once := func(f func()) {
		if !gone {
			gone = true
			f()
		}
	}
	goOn := func() { once(then) }
	c.after(time.Second, func() { once(func() { l.release(u.rest) }) })
	u.access(l.name, token, func(v *int) {
		w.updates.Read(l.name, token)
		base := *v
		c.reply(epoch, func() {
			if gone || l.ended {
				goOn()
				return
			}
			c.spawn(func() {
				u.access(l.name, token, func(v *int) {
					*v = base + 1
					w.check(registersSurvive, "resource", w.updates.Wrote(l.name, token, base, *v))
					c.reply(epoch, goOn)
				})
			})
		})
	})
}

// access sends an access to a resource, which the guard may refuse.
func (u *user) access(name int, token fence.Token, access func(v *int)) {
	w := u.c.w
	if w.lost() {
		return
	}
	w.at(min(w.now+w.delay(), max(w.quietAt, w.now+time.Millisecond)), func() {
		v := &u.values[name]
		if u.off {
			access(v)
			return
		}
		err := u.guard.Do(context.Background(), w.names[name], token, func() error {
			access(v)
			return nil
		})
		if err != nil {
			w.count(staleWrite)
		}
	})
}

// reply tells a client of an access, if it still lives.
func (c *client) reply(epoch int, f func()) {
	if !c.w.lost() && c.epoch == epoch {
		c.at(c.w.now+c.w.delay(), f)
	}
}
