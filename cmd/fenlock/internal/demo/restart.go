//go:build linux || darwin || freebsd

package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/fenlock/fenlock"
)

// restart: a server forgets its locks. Plain Redlock lets it vote at once, and has two
// holders; fenlock does not.
func restart(st *stage) {
	const name, ttl = "demo/report", 15 * time.Second
	g := st.newGroup(3, false, 30*time.Second)
	st.say("", Tell, "Three servers; two are a majority. They keep nothing on disk. Client A is cut off from s3 by the "+
		"network, and takes a lock on s1 and s2. Then s2 crashes, and is back at once, empty. Client B reaches all three. Two locks are "+
		"played side by side: one by plain Redlock (SET NX PX on each server, a few lines in this demo), one by fenlock.")
	s := g.servers
	a, b := g.locker(config("client A", ttl, g.maxTTL), s[2]), g.locker(config("client B", ttl, g.maxTTL))
	nowhere := fmt.Sprintf("127.0.0.1:%d", st.freePort())

	began := time.Now()
	votes, held := redlock(st.ctx, name, ttl, s[0].address(), s[1].address(), nowhere)
	st.require(held, "A did not get the lock of plain Redlock: %q", votes)
	st.say("client A", Holds, "Redlock: %s: has the lock, for %s", row(votes), short(ttl))
	lock := g.acquire(a, name)
	st.say("client A", Holds, "fenlock: s1 OK, s2 OK, s3 cut off: has the lock, for %s", short(lock.Remaining()))

	s[1].kill()
	st.say("s2", Killed, "is killed (SIGKILL)")
	s[1].launch()
	st.say("s2", Started, "is back, and has forgotten both locks")

	votes, held = redlock(st.ctx, name, ttl, s[0].address(), s[1].address(), s[2].address())
	// That s1 refuses B shows that A's lock has not ended.
	st.require(held && row(votes) == "s1 taken, s2 OK, s3 OK" && time.Since(began) < ttl,
		"B asked for the lock of plain Redlock: %q", votes)
	st.say("client B", Harm, "Redlock: %s: has the lock as well. A's is valid for another %s: TWO HOLDERS", row(votes),
		short(ttl-time.Since(began)))

	_, err := b.TryAcquire(st.ctx, name)
	st.require(errors.Is(err, fenlock.ErrHeld), "B tried to take the lock: %v", err)
	s2 := g.examine()[1]
	st.must(s2.Err)
	st.require(!s2.Examination.Admitted, "s2 votes")
	st.say("client B", Refused, "fenlock: refused. s1 says that A has it, and s2 does not vote for another %s: %s",
		short(s2.Examination.Wait), s2.Examination.Why)
	left := lock.Remaining()
	st.require(left > 0, "A's lock of fenlock has ended")
	st.say("client A", Extends, "fenlock: still has the lock, for %s, and is the only holder", short(left))
	st.say("demo", Checked, "checked: same servers, same crash: plain Redlock had two holders, fenlock one")
}

// row shows what s1, s2 and s3 have answered.
func row(votes []string) string {
	return fmt.Sprintf("s1 %s, s2 %s, s3 %s", votes[0], votes[1], votes[2])
}
