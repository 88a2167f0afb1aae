//go:build linux || darwin || freebsd

package demo

import (
	"strings"
	"time"
)

// outage: with two of five servers down the lock works; with three it does not.
func outage(st *stage) {
	const name, ttl = "demo/orders", 3 * time.Second
	st.tell("Five servers that know nothing of each other. Who has a lease on three of them has the lock. " +
		"These write everything to their disks, so they forget nothing when they are killed.")
	g := st.newGroup(5, true, ttl)
	s := g.servers
	one, two, three := g.client("client 1", ttl), g.client("client 2", ttl), g.client("client 3", ttl)

	r := one.do(order{Do: doAcquire, Name: name}, acquired)
	r.says(Holds, "has the lock after %s, token %d", short(r.Waited), r.Token)
	s[3].kill()
	s[4].kill()
	st.did([]string{"s4", "s5"}, "demo", Killed, "kills s4 and s5: two of five are down")
	r = one.do(order{Do: doExtend}, extended)
	r.says(Extends, "extends its lease: s1, s2 and s3 are enough")
	one.do(order{Do: doRelease}, released).says(Gives, "gives the lock back")
	r = two.do(order{Do: doAcquire, Name: name}, acquired)
	r.says(Holds, "has the lock after %s, token %d", short(r.Waited), r.Token)
	before := r.Token

	s[2].kill()
	st.did([]string{"s3"}, "demo", Killed, "kills s3 as well: three of five are down")
	r = two.do(order{Do: doExtend}, noQuorum)
	r.says(Refused, "cannot extend: %s", st.plain(r.Text))
	three.tell(order{Do: doAcquire, Name: name})
	r = three.await(waiting)
	st.require(strings.Contains(r.Text, "no quorum"), "client 3 was told: %s", r.Text)
	r.says(Waits, "wants the lock, is told that there is no quorum, and waits")
	two.await(lost).says(Lost, "is told that it has lost the lock: not extended in time")
	s[2].restart()
	st.did([]string{"s3"}, "demo", Started, "starts s3 again, which reads its file: three of five")
	r = three.await(acquired)
	r.says(Holds, "has the lock (waited %s), token %d", short(r.Waited), r.Token)
	st.require(r.Token > before, "client 3 has the token %d, and client 2 had %d", r.Token, before)
	st.say("demo", Checked, "checked: with two down the lock worked; with three, nobody got it, and whoever asked was told why")
}
