//go:build linux || darwin || freebsd

package demo

import (
	"syscall"
	"time"
)

// paused: a holder is stopped beyond its lease, just before it writes. First nobody can
// know; then the resource looks at the tokens.
func paused(st *stage) {
	st.tell("An account has 100 euros. Client 1 withdraws 30, client 2 withdraws 50: each takes the lock, reads the balance, " +
		"writes what is left. But client 1 is stopped at the worst moment: it has made sure that it holds the lock, and has " +
		"not written yet. A garbage collection, a closed laptop or a busy hypervisor can do that.")
	g := st.newGroupOrFile(3, pausedTTL)
	w := withdrawals{st, g.client("client 1", pausedTTL), g.client("client 2", pausedTTL)}

	st.tell("Part 1. The account takes whatever is written.")
	w.unguarded(st.newAccount(100, false))

	st.tell("Part 2. The same, but the account has a guard. Every lock comes with a number, the token: the later the lock, the " +
		"larger the token. Each write brings its token. The account remembers the largest, and refuses a smaller one.")
	w.guarded(st.newAccount(100, true))
}

const (
	lockName  = "demo/account"
	pausedTTL = 1500 * time.Millisecond
)

// withdrawals is the story that is played twice.
type withdrawals struct {
	*stage
	one, two *client
}

func (w withdrawals) unguarded(a *account) {
	w.take(w.one).says(Holds, "has the lock: a lease of %s, extended while it runs", short(pausedTTL))
	w.read(w.one, a, 100)
	left := w.one.do(order{Do: doCheck}, checked)
	left.says(Does, "reads 100, and is going to write 70. Asks once more whether it still has the lock: yes, for another %s", short(left.Left))
	had := w.stop()
	had.says(Holds, "waits %s, and has the lock: client 1's lease has ended", short(had.Waited))
	w.read(w.two, a, 100)
	w.write(w.two, a, 50, wrote).shows("account", Wrote, "100 -> 50, written by client 2")
	w.wake(a, wrote).shows("account", Harm, "50 -> 70, written by client 1, over what client 2 wrote")
	w.one.await(lost).says(Lost, "is told that it has lost the lock: too late")
	w.give(w.two)
	w.require(a.balance.Load() == 70, "the account has %d, and not 70", a.balance.Load())
	w.say("demo", Harm, "30 and 50 were withdrawn from 100: 20 should be left, and 70 are. No lock can prevent that: client 1 could not know")
}

func (w withdrawals) guarded(a *account) {
	first := w.take(w.one)
	first.says(Holds, "has the lock, token %d", first.Token)
	w.read(w.one, a, 100)
	w.one.do(order{Do: doCheck}, checked).says(Does, "reads 100, still has the lock, is going to write 70")
	then := w.stop()
	then.says(Holds, "has the lock, token %d: larger", then.Token)
	w.require(then.Token > first.Token, "client 2's token is %d, and client 1's %d", then.Token, first.Token)
	w.read(w.two, a, 100)
	w.write(w.two, a, 50, wrote).shows("account", Wrote, "100 -> 50, written by client 2. Remembers the token")
	w.wake(a, stale).shows("account", Stale, "refuses 70 from client 1: %d is smaller than %d. The balance stays 50", first.Token, then.Token)
	w.one.await(lost)
	w.note(w.one.name, Lost)
	w.give(w.two)
	again := w.take(w.one)
	w.read(w.one, a, 50)
	again.says(Holds, "starts over: has the lock, token %d, and reads 50", again.Token)
	w.write(w.one, a, 20, wrote).shows("account", Wrote, "50 -> 20, written by client 1")
	w.give(w.one)
	w.require(a.balance.Load() == 20, "the account has %d, and not 20", a.balance.Load())
	w.say("demo", Checked, "checked: 30 and 50 were withdrawn from 100, and 20 are left: nothing is lost")
}

func (withdrawals) take(c *client) said {
	return c.do(order{Do: doAcquire, Name: lockName}, acquired)
}

func (w withdrawals) give(c *client) {
	c.do(order{Do: doRelease}, released)
	w.note(c.name, Gives)
}

func (w withdrawals) read(c *client, a *account, want int) {
	r := c.do(order{Do: doRead, URL: a.url}, got)
	w.require(r.Value == want, "%s has read %d, and not %d", c.name, r.Value, want)
}

func (withdrawals) write(c *client, a *account, value int, want heard) said {
	return c.do(order{Do: doWrite, URL: a.url, Value: value}, want)
}

// stop stops client 1, and returns when client 2 has the lock.
func (w withdrawals) stop() said {
	w.one.run.signal(syscall.SIGSTOP)
	w.two.tell(order{Do: doAcquire, Name: lockName})
	w.did([]string{w.one.name}, "demo", Stopped, "stops client 1 before it writes (SIGSTOP to process %d)", w.one.run.pid)
	return w.two.await(acquired)
}

// wake lets client 1 go on. The first thing it does is what it was about to do.
func (w withdrawals) wake(a *account, want heard) said {
	w.one.tell(order{Do: doWrite, URL: a.url, Value: 70})
	w.did([]string{w.one.name}, "demo", GoesOn, "lets client 1 go on (SIGCONT): it does not know, and writes")
	w.one.run.signal(syscall.SIGCONT)
	return w.one.await(want)
}
