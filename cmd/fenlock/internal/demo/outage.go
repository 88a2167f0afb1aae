//go:build linux || darwin || freebsd

package demo

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
)

// outage: with two of five servers down the lock works; with three it does not.
func outage(st *stage) {
	const name, ttl = "demo/orders", 3 * time.Second
	g := st.newGroup(5, true, ttl)
	st.say("", Tell, "Five servers that do not communicate. A client with a lease on three of them has the lock. "+
		"These write everything to their disks, so they forget nothing when they are killed.")
	s := g.servers
	one, two := g.locker(config("client 1", ttl, ttl)), g.locker(config("client 2", ttl, ttl))
	told := make(chan error, 16)
	third := config("client 3", ttl, ttl)
	third.Observer.Waiting = func(_ context.Context, _ string, why error) {
		select {
		case told <- why:
		default:
		}
	}
	three := g.locker(third)

	began := time.Now()
	first := g.acquire(one, name)
	st.say("client 1", Holds, "has the lock after %s, token %d", short(time.Since(began)), first.Token())
	s[3].kill()
	s[4].kill()
	st.say("demo", Killed, "kills s4 and s5: two of five are down")
	st.must(first.Extend(st.ctx))
	st.say("client 1", Extends, "extends its lease: s1, s2 and s3 are enough")
	st.must(first.Release(st.ctx))
	st.say("client 1", Gives, "releases the lock")
	began = time.Now()
	second := g.acquire(two, name)
	st.require(second.Token() > first.Token(), "client 2 has the token %d, and client 1 had %d", second.Token(),
		first.Token())
	st.say("client 2", Holds, "has the lock after %s, token %d", short(time.Since(began)), second.Token())

	s[2].kill()
	st.say("demo", Killed, "kills s3 as well: three of five are down")
	err := second.Extend(st.ctx)
	st.require(errors.Is(err, fenlock.ErrNoQuorum), "client 2 extended its lease: %v", err)
	_, why, _ := strings.Cut(err.Error(), name+`": `)
	why, _, _ = strings.Cut(why, "; ") // without what each server said
	st.say("client 2", Refused, "cannot extend its lease: %s", why)
	began = time.Now()
	acquired := make(chan *fenlock.Lock, 1)
	go func() {
		if lock, err := three.Acquire(st.ctx, name); err == nil {
			acquired <- lock
		}
	}()
	err = receive(st, "client 3 is told why it waits", told)
	st.require(errors.Is(err, fenlock.ErrNoQuorum), "client 3 was told: %v", err)
	st.say("client 3", Waits, "wants the lock, is told that there is no quorum, and waits")
	receive(st, "client 2 is told that it has lost the lock", second.Context().Done())
	st.require(errors.Is(context.Cause(second.Context()), fenlock.ErrLost), "client 2 was told: %v",
		context.Cause(second.Context()))
	st.say("client 2", Lost, "is told that it has lost the lock: not extended in time")
	st.require(len(acquired) == 0, "client 3 got the lock")
	s[2].launch()
	st.say("demo", Started, "starts s3 again, which reads its file: three of five")
	last := receive(st, "client 3 has the lock", acquired)
	st.require(last.Token() > second.Token(), "client 3 has the token %d, and client 2 had %d", last.Token(),
		second.Token())
	st.say("client 3", Holds, "has the lock (waited %s), token %d", short(time.Since(began)), last.Token())
	st.say("demo", Checked, "checked: with two down the lock worked; with three, no client got it, and each was told why")
}
