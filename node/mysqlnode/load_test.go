package mysqlnode_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// Random operations of many clients on few names. Some connections are cut, and the server is
// killed in between. Each name is one holder's at a time, and the numbers of a stripe are unique
// and grow. Nothing is stuck.
func TestRandomLoad(t *testing.T) {
	s := testserver.StartMariaDB(t)
	ready(t, s)
	p := proxy.New(s.Addr(), nil)
	t.Cleanup(p.Close)
	var names []string // two of each stripe
	for i := range 3 {
		first := fmt.Sprint("load ", i)
		names = append(names, first)
		for k := 0; ; k++ {
			if name := fmt.Sprint(first, " ", k); node.Stripe(name) == node.Stripe(first) {
				names = append(names, name)
				break
			}
		}
	}
	type granted struct {
		stripe     int
		token      fence.Token
		began, end int64
	}
	var mu sync.Mutex
	var grants []granted
	var ticks atomic.Int64
	owner := make([]atomic.Int64, len(names))
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const workers, rounds = 12, 60
	for worker := range workers {
		url := s.URL()
		if worker%3 == 0 {
			url = "mysql://root@" + p.Addr(worker) + "/locks?name=" + s.Addr() + "/locks"
		}
		n := open(t, url)
		join(t, n, maxTTL, true)
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			do := func(r node.Request) (node.Answer, error) {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				return n.Do(ctx, r)
			}
			for i := range rounds {
				which := rng.IntN(len(names))
				r := node.Request{Op: node.Acquire, Name: names[which], Holder: node.Holder(fmt.Sprintf("%016d%016d:", worker, i)),
					TTL: time.Hour}
				began := ticks.Add(1)
				a, err := do(r)
				if err == nil && a.Status == node.Granted {
					mu.Lock()
					grants = append(grants, granted{node.Stripe(r.Name), a.Register, began, ticks.Add(1)})
					mu.Unlock()
					if !owner[which].CompareAndSwap(0, int64(worker+1)) {
						t.Errorf("%q was granted to %d while %d had it", r.Name, worker+1, owner[which].Load())
					}
					if rng.IntN(2) == 0 {
						if a, err := do(as(node.Extend, r)); err == nil && a.Status != node.Granted {
							t.Errorf("extend: %+v", a)
						}
					}
					owner[which].Store(0)
				} else if err == nil {
					continue
				}
				// What is not known is released until it is known that nothing is left.
				for a, err = do(as(node.Release, r)); err != nil && ctx.Err() == nil; a, err = do(as(node.Release, r)) {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	faults := make(chan struct{})
	go func() {
		defer close(faults)
		for i := range 6 {
			time.Sleep(200 * time.Millisecond)
			p.Impose(proxy.Rule{Cut: true})()
			if i == 3 {
				s.Kill()
				s.Restart()
			}
		}
	}()
	all.Wait()
	<-faults
	if ctx.Err() != nil {
		t.Error("something is stuck")
	}
	slices.SortFunc(grants, func(a, b granted) int { return int(a.end - b.end) })
	for i, g := range grants {
		for _, later := range grants[i+1:] {
			if g.stripe == later.stripe && (g.token == later.token || g.end < later.began && g.token > later.token) {
				t.Errorf("%+v and later %+v", g, later)
			}
		}
	}
	if len(grants) < workers*rounds/10 {
		t.Errorf("%d grants", len(grants))
	}
	t.Logf("%d grants", len(grants))
}

// In a group with others a node that has forgotten has its registers made anew from
// theirs, and theirs from it.
func TestMixedGroup(t *testing.T) {
	const maxTTL = 2 * time.Second
	s := testserver.StartMariaDB(t, "server-id=1")
	n := open(t, s.URL())
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	others := []*memnode.Node{memnode.New("b"), memnode.New("c")}
	nodes := []node.Node{n, others[0], others[1]}
	l, err := fenlock.New(fenlock.Config{Nodes: nodes, TTL: maxTTL, MaxTTL: maxTTL, NewServers: true,
		NodeTimeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	lock, err := l.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	first := lock.Token()
	s.Stop()
	// The others go on, and further than this one has seen.
	lock.Release(t.Context())
	if lock, err = l.Acquire(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	second := lock.Token()
	lock.Release(t.Context())
	s.Restart("server-id=2")
	in := func() bool {
		a, err := n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "other"), time.Millisecond))
		return err == nil && a.Status == node.Granted
	}
	for end := time.Now().Add(time.Minute); !in() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	r, err := n.Registers(t.Context())
	if err != nil || !r.Admitted || r.Tokens[node.Stripe("a")] < second || second <= first {
		t.Errorf("%d, then %d; now %+v, %v", first, second, r.Tokens, err)
	}
	others[0].Crash()
	others[1].Crash()
	others[0].Restart()
	others[1].Restart()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if lock, err = l.TryAcquire(t.Context(), "a"); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil || lock.Token() <= second {
		t.Errorf("%v, %v; want a token above %d", lock, err, second)
	}
}

// A listener whose connection was killed listens again, and says that it may have missed
// something. Its waiters are passed over meanwhile, and one that has ended at once.
func TestListenerIsCutOff(t *testing.T) {
	s := testserver.StartMariaDB(t)
	n, other := ready(t, s), ready(t, s)
	lock := take(t, n, "a")
	client := fmt.Sprintf("%032d", 7)
	events := make(chan string, 10)
	if err := other.Listen(t.Context(), client, func(w string) { events <- w }); err != nil {
		t.Fatal(err)
	}
	next := func() string {
		select {
		case e := <-events:
			return e
		case <-time.After(3 * time.Minute):
			return "nothing"
		}
	}
	for range 2 {
		var id int64
		query(t, s, `SELECT connection FROM fenlock_listeners`, &id)
		run(t, s, fmt.Sprintf(`KILL %d`, id))
		if e := next(); e != "" {
			t.Fatalf("told %q", e)
		}
	}
	s.Kill()
	time.Sleep(time.Second)
	s.Restart()
	if e := next(); e != "" {
		t.Fatalf("told %q after a restart", e)
	}
	waiter := request(node.Acquire, "a")
	waiter.Place = node.Place{Waiter: client + ":9", Stamp: 1}
	want(t, node.Held)(other.Do(t.Context(), waiter))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, lock)))
	if e := next(); e != client+":9" {
		t.Errorf("told %q", e)
	}
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
	s := testserver.StartMariaDB(t)
	ready(t, s)
	p := proxy.New(s.Addr(), nil)
	t.Cleanup(p.Close)
	n := open(t, "mysql://root@"+p.Addr(0)+"/locks?name="+s.Addr()+"/locks")
	n.LongestSilence(time.Second)
	join(t, n, maxTTL, true)
	again := make(chan bool, 10)
	if err := n.Listen(t.Context(), fmt.Sprintf("%032d", 7), func(w string) { again <- w == "" }); err != nil {
		t.Fatal(err)
	}
	lift := p.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
	time.Sleep(5 * time.Second) // a listener looks every 2.5 s
	lift()
	select {
	case is := <-again:
		if !is {
			t.Error("a waiter was notified")
		}
	case <-time.After(3 * time.Minute):
		t.Error("it listens on a connection that was silent")
	}
}

// A server whose clock was set back says so, and who listens does not wait until it shows
// again what it showed before.
func TestListenerOfClockSetBack(t *testing.T) {
	s := testserver.StartMariaDB(t)
	n, other := ready(t, s), ready(t, s)
	lock := take(t, n, "a")
	client := fmt.Sprintf("%032d", 7)
	told := make(chan string, 10)
	if err := other.Listen(t.Context(), client, func(w string) { told <- w }); err != nil {
		t.Fatal(err)
	}
	waiter := request(node.Acquire, "a")
	waiter.Place = node.Place{Waiter: client + ":9", Stamp: 1}
	want(t, node.Held)(other.Do(t.Context(), waiter))
	// As if a waiter had been notified an hour from now.
	run(t, s, fmt.Sprintf(`UPDATE fenlock_stripes SET version = version + 1, turns = %d WHERE stripe = %d`,
		time.Now().Add(time.Hour).UnixMicro(), node.Stripe("a")))
	time.Sleep(3 * time.Second) // it has looked
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, lock)))
	select {
	case w := <-told:
		if w != client+":9" {
			t.Errorf("told %q", w)
		}
	case <-time.After(3 * time.Minute):
		t.Error("it was told nothing")
	}
}
