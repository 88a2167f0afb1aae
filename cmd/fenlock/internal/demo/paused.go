//go:build linux || darwin || freebsd

package demo

import "syscall"

// paused: a holder is stopped beyond its lease, just before it writes. First no client can
// know; then the resource looks at the tokens.
func paused(st *stage) {
	g := st.newGroup(3, false, pausedTTL)
	st.say(
		"", Tell, "An account has 100 euros. Client 1 withdraws 30, client 2 withdraws 50: each takes the lock, reads the balance, "+
			"writes what is left. But client 1 is stopped at the worst moment: it has made sure that it holds the lock, and has "+
			"not written yet. A garbage collection, a closed laptop or a busy hypervisor can do that.")
	w := withdrawals{st, g.client("client 1"), g.client("client 2")}

	st.say("", Tell, "Part 1. The account takes whatever is written.")
	w.unguarded(st.newAccount(100, false))

	st.say(
		"", Tell, "Part 2. The same, but the account has a guard. Every lock comes with a number, the token: the later the lock, the "+
			"larger the token. Each write brings its token. The account remembers the largest, and refuses a smaller one.")
	w.guarded(st.newAccount(100, true))
}

// withdrawals is the story that is played twice.
type withdrawals struct {
	*stage
	one, two *client
}

func (w withdrawals) unguarded(a *account) {
	w.take(w.one, a, 100)
	w.say("client 1", Holds, "has the lock: a lease of %s, extended while it runs", short(pausedTTL))
	left := w.one.do(order{Do: doCheck}).Left
	w.require(left > 0, "client 1 has lost the lock")
	w.say(
		"client 1", Does, "reads 100, and is going to write 70. Asks once more whether it still has the lock: yes, for another %s", short(left))
	had := w.stop(a)
	w.say("client 2", Holds, "waits %s, and has the lock: client 1's lease has ended", short(had.Waited))
	w.write(w.two, a, 50)
	w.say("account", Wrote, "100 -> 50, written by client 2")
	w.require(!w.wake(a).Refused, "the account has refused the write")
	w.say("account", Harm, "50 -> 70, written by client 1, over what client 2 wrote")
	w.lost()
	w.say("client 1", Lost, "asks again, and is told that it has lost the lock: too late")
	w.two.do(order{Do: doRelease})
	w.require(a.balance.Load() == 70, "the account has %d, and not 70", a.balance.Load())
	w.say("demo", Harm, "30 and 50 were withdrawn from 100: 20 should be left, and 70 are. No lock can prevent that: client 1 could not know")
}

func (w withdrawals) guarded(a *account) {
	first := w.take(w.one, a, 100)
	w.say("client 1", Holds, "has the lock, token %d", first.Token)
	w.require(w.one.do(order{Do: doCheck}).Left > 0, "client 1 has lost the lock")
	w.say("client 1", Does, "reads 100, still has the lock, is going to write 70")
	then := w.stop(a)
	w.require(then.Token > first.Token, "client 2's token is %d, and client 1's %d", then.Token, first.Token)
	w.say("client 2", Holds, "has the lock, token %d: larger", then.Token)
	w.write(w.two, a, 50)
	w.say("account", Wrote, "100 -> 50, written by client 2. Remembers the token")
	w.require(w.wake(a).Refused && a.balance.Load() == 50, "the account has taken the write, and has %d", a.balance.Load())
	w.say("account", Stale, "refuses 70 from client 1: %d is smaller than %d. The balance stays 50", first.Token,
		then.Token)
	w.lost()
	w.two.do(order{Do: doRelease})
	again := w.take(w.one, a, 50)
	w.say("client 1", Holds, "starts over: has the lock, token %d, and reads 50", again.Token)
	w.write(w.one, a, 20)
	w.say("account", Wrote, "50 -> 20, written by client 1")
	w.one.do(order{Do: doRelease})
	w.require(a.balance.Load() == 20, "the account has %d, and not 20", a.balance.Load())
	w.say("demo", Checked, "checked: 30 and 50 were withdrawn from 100, and 20 are left: nothing is lost")
}

// take has a client take the lock and read the account.
func (w withdrawals) take(c *client, a *account, want int) reply {
	return w.taken(c, c.do(order{Do: doAcquire, URL: a.url}), want)
}

func (w withdrawals) taken(c *client, r reply, want int) reply {
	w.require(r.Balance == want, "%s has read %d, and not %d", c.name, r.Balance, want)
	return r
}

// write has a client write what the account does not refuse.
func (w withdrawals) write(c *client, a *account, value int) {
	w.require(!c.do(order{Do: doWrite, URL: a.url, Value: value}).Refused, "the account has refused %d from %s", value,
		c.name)
}

// stop stops client 1, and returns when client 2 has the lock.
func (w withdrawals) stop(a *account) reply {
	w.one.run.signal(syscall.SIGSTOP)
	w.two.tell(order{Do: doAcquire, URL: a.url})
	w.say("demo", Stopped, "stops client 1 before it writes (SIGSTOP to process %d)", w.one.run.pid)
	return w.taken(w.two, w.two.hear(), 100)
}

// wake lets client 1 go on. The first thing it does is what it was about to do.
func (w withdrawals) wake(a *account) reply {
	w.one.tell(order{Do: doWrite, URL: a.url, Value: 70})
	w.say("demo", GoesOn, "lets client 1 go on (SIGCONT): it does not know, and writes")
	w.one.run.signal(syscall.SIGCONT)
	return w.one.hear()
}

// lost makes sure that client 1 knows now.
func (w withdrawals) lost() {
	w.require(w.one.do(order{Do: doCheck}).Left == 0, "client 1 believes that it has the lock")
}
