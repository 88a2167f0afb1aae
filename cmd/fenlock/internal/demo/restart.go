//go:build linux || darwin || freebsd

package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
)

// restart: a server forgets its locks. Plain Redlock lets it vote at once, and has two
// holders; fenlock does not.
func restart(st *stage) {
	const name, ttl = "demo/report", 10 * time.Second
	st.tell("Three servers; two are a majority. They keep nothing on disk. Client A is cut off from s3 by the " +
		"network, and takes a lock on s1 and s2. Then s2 crashes, and is back at once, empty. Client B reaches all three. Two locks are " +
		"played side by side: one by plain Redlock (SET NX PX on each server, a few lines in this demo), one by fenlock.")
	g := st.newGroup(3, false, 30*time.Second)
	s := g.servers
	a, b := g.clientWithout(s[2], "client A", ttl), g.client("client B", ttl)
	nowhere := fmt.Sprintf("127.0.0.1:%d", st.freePort())
	plainA := newRedlock(s[0].address(), s[1].address(), nowhere)
	plainB := newRedlock(s[0].address(), s[1].address(), s[2].address())

	began := time.Now()
	votes, held := plainA.acquire(st.ctx, name, ttl)
	st.require(held, "A did not get the lock of plain Redlock: %q", votes)
	st.say("client A", Holds, "Redlock: %s: has the lock, for %s", row(votes), short(ttl))
	first := a.do(order{Do: doAcquire, Name: name}, acquired)
	st.require(g.leases(name, a) == "s1 s2 --", "A has leases on %s", g.leases(name, a))
	first.says(Holds, "fenlock: s1 OK, s2 OK, s3 cut off: has the lock, for %s", short(first.Left))

	s[1].kill()
	st.say("s2", Killed, "is killed (SIGKILL)")
	s[1].restart()
	st.say("s2", Started, "is back, and has forgotten both locks")

	votes, held = plainB.acquire(st.ctx, name, ttl)
	st.require(held && votes[1] == "OK", "B did not get the lock of plain Redlock: %q", votes)
	st.require(plainA.count(st.ctx, name) > 0 && time.Since(began) < ttl, "A's lock of plain Redlock has ended")
	st.say("client B", Harm, "Redlock: %s: has the lock as well. A's is valid for another %s: TWO HOLDERS", row(votes), short(ttl-time.Since(began)))

	tried := b.do(order{Do: doTry, Name: name}, refused)
	s2 := b.hear("s2", func(r said) bool { return r.client == b && r.What == unwell && strings.Contains(r.Text, isOut) })
	_, why, _ := strings.Cut(s2.Text, isOut)
	tried.says(Refused, "fenlock: refused. s1 says that A has it, and s2 does not vote: %s", why)
	left := a.do(order{Do: doCheck}, checked)
	left.says(Extends, "fenlock: still has the lock, for %s, and nobody else has", short(left.Left))
	st.say("demo", Checked, "checked: same servers, same crash: plain Redlock had two holders, fenlock one")
}

// row shows what s1, s2 and s3 have answered.
func row(votes []string) string {
	return fmt.Sprintf("s1 %s, s2 %s, s3 %s", votes[0], votes[1], votes[2])
}

// isOut is between the name of a node that may not vote and the reason, in what a client
// hears of its nodes.
var isOut = " " + fenlock.NodeOut.String() + ": "
