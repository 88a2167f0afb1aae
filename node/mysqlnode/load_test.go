package mysqlnode_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
)

// A listener whose connection was killed listens again, and says that it may have missed
// something. Its waiters are passed over meanwhile, and one that has ended at once.
func TestListenerIsCutOff(t *testing.T) {
	t.Parallel()
	s := durable(t, testserver.StartMariaDB(t))
	n, other := ready(t, s), ready(t, s)
	lock := take(t, n, "a")
	client := fmt.Sprintf("%032d", 7)
	told := listen(t, other, client)
	for range 2 {
		var id int64
		query(t, s, `SELECT connection FROM fenlock_listeners`, &id)
		run(t, s, fmt.Sprintf(`KILL %d`, id))
		tells(t, told, "")
	}
	s.Kill()
	time.Sleep(time.Second)
	s.Restart()
	tells(t, told, "")
	waiter := request(node.Acquire, "a")
	waiter.Place = node.Place{Waiter: client + ":9", Stamp: 1}
	want(t, node.Held)(other.Do(t.Context(), waiter))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, lock)))
	tells(t, told, client+":9")
	want(t, node.Granted)(other.Do(t.Context(), waiter))

	// A row that is left of a process that was killed, and one whose number another has now.
	lock = as(node.Release, waiter)
	lock.Place = node.Place{}
	gone := request(node.Acquire, "a")
	gone.Place = node.Place{Waiter: fmt.Sprintf("%032d:1", 8), Stamp: 1}
	want(t, node.Held)(n.Do(t.Context(), gone))
	for _, change := range []string{"connection = 999999999", "started = started - 1"} {
		run(t, s, `INSERT INTO fenlock_listeners SELECT '`+fmt.Sprintf("%032d", 8)+`', connection, server, started, account, seen FROM fenlock_listeners WHERE client = '`+client+`'
			ON DUPLICATE KEY UPDATE connection = VALUES(connection), started = VALUES(started)`, `UPDATE fenlock_listeners SET `+change+` WHERE client = '`+fmt.Sprintf("%032d", 8)+`'`)
		want(t, node.Granted)(n.Do(t.Context(), lock))
		lock = as(node.Release, take(t, n, "a"))
		want(t, node.Held)(n.Do(t.Context(), gone))
	}
}

// A connection whose other end is silent is given up: what had come on it is looked for on
// the next.
func TestListenerMeetsSilence(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	ready(t, s)
	p := proxy.New(s.Addr(), nil)
	t.Cleanup(p.Close)
	n := open(t, "mysql://root@"+p.Addr(0)+"/locks?name="+s.Addr()+"/locks")
	n.LongestSilence(time.Second)
	join(t, n, maxTTL, true)
	told := listen(t, n, fmt.Sprintf("%032d", 7))
	lift := p.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
	time.Sleep(5 * time.Second) // a listener looks every 2.5 s
	lift()
	tells(t, told, "") // or it listens on a connection that was silent
}

// A server whose clock was set back says so, and who listens does not wait until it shows
// again what it showed before.
func TestListenerOfClockSetBack(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n, other := ready(t, s), ready(t, s)
	lock := take(t, n, "a")
	client := fmt.Sprintf("%032d", 7)
	told := listen(t, other, client)
	waiter := request(node.Acquire, "a")
	waiter.Place = node.Place{Waiter: client + ":9", Stamp: 1}
	want(t, node.Held)(other.Do(t.Context(), waiter))
	// As if a waiter had been notified an hour from now.
	run(t, s, fmt.Sprintf(`UPDATE fenlock_stripes SET version = version + 1, turns = %d WHERE stripe = %d`,
		time.Now().Add(time.Hour).UnixMicro(), node.Stripe("a")))
	time.Sleep(3 * time.Second) // it has looked
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, lock)))
	tells(t, told, client+":9")
}

// A connection is cut at any moment while a client looks at the server or asks it. What is not
// known is released, and the name is free then.
func TestCutAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	other := ready(t, s)
	p := proxy.New(s.Addr(), nil)
	t.Cleanup(p.Close)
	for i := range 100 {
		n := open(t, "mysql://root@"+p.Addr(i)+"/locks?name="+s.Addr()+"/locks")
		join(t, n, maxTTL, true)
		r := request(node.Acquire, fmt.Sprint("cut ", i))
		cut := time.AfterFunc(time.Duration(i)*200*time.Microsecond, func() { p.Impose(proxy.Rule{Cut: true})() })
		if a, err := n.Do(t.Context(), r); err == nil && a.Status != node.Granted {
			t.Errorf("%d: %+v", i, a)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if _, err := n.Do(t.Context(), as(node.Release, r)); err == nil {
				break
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		cut.Stop()
		want(t, node.Granted)(other.Do(t.Context(), request(node.Acquire, r.Name)))
		n.Close()
	}
}
