//go:build linux || darwin || freebsd

package demo

import "time"

// rolling: all servers restart empty, one after the other, under a lock that is held.
func rolling(st *stage) {
	const name, ttl = "demo/migration", 1500 * time.Millisecond
	st.tell("Three servers that keep nothing on disk are restarted one after the other, as for an upgrade. Each comes back empty. " +
		"Client 1 has the lock, and client 2 wants it. The longest lease is 1.5 s here, so a server that may have forgotten one " +
		"does not vote for that and a second (31 s, unless set otherwise).")
	g := st.newGroup(3, false, ttl)
	one, two := g.client("client 1", ttl), g.client("client 2", ttl)

	first := one.do(order{Do: doAcquire, Name: name}, acquired)
	// It is held as soon as a majority has granted; the third one comes at once.
	st.until("all servers have the lease", func() bool { return g.leases(name, one) == "s1 s2 s3" })
	first.says(Holds, "has the lock, token %d, leases on %s", first.Token, g.leases(name, one))
	two.tell(order{Do: doAcquire, Name: name})
	two.await(waiting).says(Waits, "asks, and waits")

	for _, s := range g.servers {
		s.kill()
		st.note(s.name, Killed)
		s.restart()
		back := time.Now()
		st.say(s.name, Started, "killed, started again empty. Client 1's leases: %s", g.leases(name, one))
		st.until(s.name+" votes, and has the lease", func() bool {
			one.mustHold()
			return g.votes(s) && g.hasLease(s, name, one)
		})
		healed := time.Now()
		st.say(s.name, Does, "votes again after %s. Client 1's leases: %s", short(healed.Sub(back)), g.leases(name, one))
		// What the promise asks for before the next one goes.
		st.pause(ttl/2 - time.Since(healed))
	}

	extended := one.do(order{Do: doExtend}, extended)
	extended.says(Extends, "extends: so nobody else has had the lock in between")
	one.do(order{Do: doRelease}, released).says(Gives, "gives the lock back")
	then := two.await(acquired)
	then.says(Holds, "has the lock (waited %s), token %d", short(then.Waited), then.Token)
	st.require(then.Token > first.Token, "client 2 has the token %d, and client 1 had %d", then.Token, first.Token)
	st.say("demo", Checked, "checked: no server knows any more how the lock was taken, and it was held all the time")
}
