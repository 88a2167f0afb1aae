package pgnode

import (
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

const shortTTL = 1500 * time.Millisecond

// short opens a node that is the whole group, of leases that are soon over. It sweeps nothing: a
// database with a connection cannot be copied or renamed.
func short(t testing.TB, rawURL string) *Node {
	t.Helper()
	n := open(t, rawURL)
	n.swept.Store(time.Now().UnixMilli())
	return join(t, n, shortTTL, true)
}

// take acquires a name for the group's longest TTL, and returns the token.
func take(t testing.TB, n *Node, name string) (node.Request, fence.Token) {
	t.Helper()
	r := request(name, 0)
	r.TTL = shortTTL
	return r, want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r))).Register
}

// returns waits until a node votes, and returns the first token that it grants. Before
// the time has come it must not.
func returns(t *testing.T, n *Node, name string, lost time.Time) fence.Token {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		r := request(name, 0)
		r.TTL = shortTTL
		a, err := n.Do(t.Context(), as(node.Acquire, r))
		switch {
		case err != nil:
			t.Logf("not yet: %v", err)
		case a.Status == node.Granted:
			if after := time.Since(lost); after < shortTTL {
				t.Fatalf("granted %v after the leases were lost, of which one may last for %v", after, shortTTL)
			}
			return a.Register
		case a.Status != node.Rejoining || a.Absence.Cause == node.Present:
			t.Fatalf("%+v from a server that has lost its leases", a)
		}
	}
	t.Fatal("it never voted again")
	return 0
}

// A server that crashes forgets its leases, and says so.
func TestCrash(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	n := short(t, u)
	_, first := take(t, n, "a")
	r, second := take(t, n, "b")
	server.Kill()
	if a, err := n.Do(t.Context(), as(node.Extend, r)); err == nil {
		t.Fatalf("a server that was killed answered %+v", a)
	}
	killed := time.Now()
	server.Start()
	a := want(t, node.Rejoining)(patient(t, n, as(node.Extend, r)))
	if a.Absence.Cause != node.Restarted || a.Absence.Wait <= 0 ||
		a.Absence.Wait > admit.Quarantine(shortTTL) {
		t.Errorf("it is out: %+v", a.Absence)
	}
	want(t, node.Lost)(n.Do(t.Context(), as(node.Release, r)))
	if r, err := n.Registers(t.Context()); err != nil || r.Admitted || r.Tokens[node.Stripe("a")] < first {
		t.Errorf("registers after a crash: %+v, %v", r, err)
	}
	if token := returns(t, n, "a", killed); token <= first {
		t.Errorf("the token %d after %d", token, first)
	}
	if _, token := take(t, short(t, u), "b"); token <= second {
		t.Errorf("the token %d after %d", token, second)
	}
}

// A clock that is set back while a server waits has it wait for as long again, not until the clock
// is where it was.
func TestClockBackWhileItWaits(t *testing.T) {
	t.Parallel()
	server := shared()
	n := short(t, newSchema(t, server))
	_, first := take(t, n, "a")
	exec1(t, n, `TRUNCATE fenlock.memory`) // by a crash, when the clock was an hour ahead
	exec1(t, n, `INSERT INTO fenlock.memory VALUES (true, 'ahead', fenlock.clock() + 3600000000, false, false, '', '', fenlock.me(), fenlock.home(), fenlock.server())`)
	if token := returns(t, n, "a", time.Now()); token <= first {
		t.Errorf("the token %d after %d", token, first)
	}
}

// A server that is stopped and started keeps its leases, also after a crash long ago.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	n := short(t, newSchema(t, server))
	take(t, n, "a")
	server.Kill()
	killed := time.Now()
	server.Start()
	returns(t, n, "a", killed)
	r := request("held", 0)
	r.TTL = time.Minute
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	server.Stop()
	server.Start()
	if a := want(t, node.Held)(patient(t, n, asAcquire(request("held", 0)))); a.HeldBy != "test" {
		t.Errorf("held by %q", a.HeldBy)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
}

// A replica that is promoted has no leases, and knows it.
func TestPromotion(t *testing.T) {
	t.Parallel()
	primary := testserver.StartPostgres(t)
	u := newSchema(t, primary)
	n := short(t, u)
	_, token := take(t, n, "a")
	replica := primary.Replica()
	path := strings.TrimPrefix(u, strings.SplitN(primary.DSN(), "?", 2)[0])
	other := strings.SplitN(replica.DSN(), "?", 2)[0] + path
	follower := short(t, other)
	if a, err := follower.Do(t.Context(), as(node.Acquire, request("a", 0))); err == nil ||
		!strings.Contains(err.Error(), "replica") {
		t.Fatalf("a replica answered %+v, %v", a, err)
	}
	if _, err := follower.Examine(t.Context(), node.Look{}); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a replica was examined: %v", err)
	}
	primary.Kill()
	lost := time.Now()
	replica.Promote()
	if a := want(t, node.Rejoining)(follower.Do(t.Context(),
		as(node.Acquire, request("a", 0)))); a.Absence.Cause != node.Replaced {
		t.Errorf("a promoted replica is out: %+v", a.Absence)
	}
	if again := returns(t, follower, "a", lost); again <= token {
		t.Errorf("the token %d after %d", again, token)
	}
}

// Nor is a dump that comes back to where it was made, with a name that is free in it and held
// since.
func TestDumpIntoTheSameDatabase(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	n := short(t, newSchema(t, server))
	take(t, n, "free")
	dump := server.Dump()
	take(t, n, "a")
	exec1(t, n, `DROP SCHEMA fenlock CASCADE`)
	lost := time.Now()
	restore(t, server, dump)
	returns(t, short(t, in(server.DSN(), n.schema)), "a", lost)
}
