package zknode

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// faulty is a network that loses what it is told to.
type faulty struct {
	answers  atomic.Bool // from the next multi on, of that connection
	requests atomic.Bool // the next multi, and what follows on that connection
	cut      atomic.Bool // all connections, and new ones
	mu       sync.Mutex
	conns    []*faultyConn
}

type faultyConn struct {
	net.Conn
	of         *faulty
	deaf, mute atomic.Bool
}

func (f *faulty) dial(ctx context.Context, address string) (net.Conn, error) {
	if f.cut.Load() {
		return nil, errors.New("cut")
	}
	conn, err := dialTCP(ctx, address)
	if err != nil {
		return nil, err
	}
	c := &faultyConn{Conn: conn, of: f}
	f.mu.Lock()
	f.conns = append(f.conns, c)
	f.mu.Unlock()
	return c, nil
}

// sever cuts all connections, and lets none be made.
func (f *faulty) sever() {
	f.cut.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
}

func (c *faultyConn) Write(b []byte) (int, error) {
	if c.mute.Load() {
		return len(b), nil
	}
	for rest := b; len(rest) >= 12; {
		n := int(binary.BigEndian.Uint32(rest))
		if binary.BigEndian.Uint32(rest[8:]) == 14 {
			if c.of.answers.CompareAndSwap(true, false) {
				c.deaf.Store(true)
			}
			if c.of.requests.CompareAndSwap(true, false) {
				c.mute.Store(true)
				return len(b), nil
			}
		}
		rest = rest[min(4+n, len(rest)):]
	}
	return c.Conn.Write(b)
}

func (c *faultyConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}

// abandoned ends a node as the end of its process does.
func abandoned(n *Node, f *faulty) {
	n.stop()
	f.sever()
	n.session.Close(false)
}

// What was sent and not answered is not known, is not sent again, and does not stay: not
// even while the client lives.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	url, f := freshURL(), new(faulty)
	n, other := voting(t, url, WithDial(f.dial)), voting(t, url)
	for _, c := range []struct {
		lose  *atomic.Bool
		moved bool
	}{{&f.answers, true}, {&f.requests, false}} {
		before, err := other.Inspect(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		r := lasting(request("a", "lost", 0), 3*time.Second)
		c.lose.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		a, err := n.Do(ctx, as(node.Acquire, r))
		cancel()
		if err == nil || errors.Is(err, node.ErrNotSent) || !strings.Contains(err.Error(), "may have been carried out") {
			t.Fatalf("%+v, %v; want an unknown outcome", a, err)
		}
		l, err := other.Inspect(t.Context(), "a")
		if err != nil || l.Leased != c.moved || (l.Register != before.Register) != c.moved {
			t.Fatalf("%+v, %v after %+v", l, err, before)
		}
		// The connection is given up, and the session goes on over another one.
		ready(t, n)
		// Its client removes it when its time is over: no client asks for it, and the session lives.
		goes(t, other, "a")
		if a := want(t, node.Granted)(other.Do(t.Context(),
			as(node.Acquire, request("a", "next", 0)))); a.Register != l.Register+1 {
			t.Errorf("granted %d; want %d: it was carried out more than once", a.Register, l.Register+1)
		}
		want(t, node.Granted)(other.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: "a"}))
	}
}

// The lease of a client that was killed lives for its TTL. A client that has seen it for as long
// takes it: the session would last for minutes.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	url, f := freshURL(), new(faulty)
	n, other := open(t, url, WithDial(f.dial)), open(t, url)
	ready(t, other)
	const ttl = 1500 * time.Millisecond
	r := lasting(request("a", "killed", 0), ttl)
	ready(t, n)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	want(t, node.Held)(other.Do(t.Context(), as(node.Acquire, request("a", "rival", 0))))
	time.Sleep(ttl / 2)
	extended := time.Now()
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	abandoned(n, f)
	ends(t, extended, ttl, func() (node.Answer, error) {
		return other.Do(t.Context(), as(node.Acquire, request("a", "rival", 0)))
	})
}

// goes waits until the servers have no lease of a name any more.
func goes(t *testing.T, n *Node, name string) {
	t.Helper()
	for deadline := time.Now().Add(hanging); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if l, err := n.look(t.Context(), name); err != nil {
			t.Fatal(err)
		} else if !l.there {
			return
		}
	}
	t.Fatal("the lease stays")
}

// ends has clients acquire a name until it is granted, which is after the end of a lease.
func ends(t *testing.T, began time.Time, ttl time.Duration, acquire func() (node.Answer, error)) {
	t.Helper()
	for {
		a, err := acquire()
		lived := time.Since(began)
		if err != nil || lived > 30*time.Second {
			t.Fatalf("%+v, %v after %v", a, err, lived)
		}
		if a.Status == node.Granted {
			if lived < ttl {
				t.Errorf("a lease of %v has lived for %v", ttl, lived)
			}
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// No client is there to see it. The servers remove it with the session, not before its TTL, and the
// next client that comes finds the name free.
func TestKilledHolderAlone(t *testing.T) {
	t.Parallel()
	url, f := freshURL(), new(faulty)
	const ttl = time.Second
	n := votingFor(t, ttl, url, WithDial(f.dial))
	r := lasting(request("a", "killed", 0), ttl)
	began := time.Now()
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	abandoned(n, f)
	ends(t, began, ttl, func() (node.Answer, error) {
		fresh := openFor(t, ttl, true, url) // which has seen nothing yet
		defer fresh.Close()
		return settle(t, fresh, as(node.Acquire, lasting(request("a", "next", 0), ttl)))
	})
}

// A client whose session has expired goes on in a new session. Its lease is gone, and is made again
// with the register as its origin.
func TestExpiredSession(t *testing.T) {
	t.Parallel()
	url, f := freshURL(), new(faulty)
	n, other := openFor(t, time.Second, true, url, WithDial(f.dial)), openFor(t, time.Second, true, url)
	ready(t, n)
	r := lasting(request("a", "me", 0), time.Second)
	first := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	link := linkOf(t, n)
	f.sever()
	for deadline := time.Now().Add(hanging); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ended, err := other.ended(t.Context(), n.vote.Load().memory, []string{idOf(link.ID)}); err != nil {
			t.Fatal(err)
		} else if ended[0] {
			break
		}
	}
	f.cut.Store(false)
	if a := eventually(t, n, as(node.Extend, r)); a.Register != first.Register {
		t.Errorf("the origin of the new lease is %d; want %d", a.Register, first.Register)
	}
	again, err := n.session.Link(t.Context())
	if err != nil || again.ID == link.ID {
		t.Errorf("the session is the old one (%v)", err)
	}
	want(t, node.Held)(other.Do(t.Context(), as(node.Acquire, lasting(request("a", "rival", 0), time.Second))))
}

// A session that ends with Close must not take leases with it that a client counts on.
func TestCloseLeavesLeases(t *testing.T) {
	url := freshURL()
	n, other := voting(t, url), voting(t, url)
	r := request("a", "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	n.Close()
	want(t, node.Held)(other.Do(t.Context(), as(node.Acquire, request("a", "rival", 0))))
	want(t, node.Granted)(other.Do(t.Context(), as(node.Release, r)))
}

// If a holder's lease is in another session, an extension moves it into the holder's own. The end
// of the other session, and its client's timer, concern the holder no more.
func TestExtensionMovesTheLease(t *testing.T) {
	t.Parallel()
	url, f := freshURL(), new(faulty)
	n, other := votingFor(t, 2*time.Second, url, WithDial(f.dial)), votingFor(t, 2*time.Second, url)
	r := lasting(request("a", "me", 0), 200*time.Millisecond)
	first := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	extended := time.Now()
	if a := want(t, node.Granted)(other.Do(t.Context(),
		as(node.Extend, lasting(r, 2*time.Second)))); a.Register != first.Register {
		t.Errorf("the origin is %d; want %d", a.Register, first.Register)
	}
	link := linkOf(t, other)
	l, err := other.look(t.Context(), "a")
	if err != nil || !l.there || l.Session != idOf(link.ID) || l.Ends-l.znode.At != 2*time.Second {
		t.Errorf("%+v, %v; want it in the session %x", l.Written, err, link.ID)
	}
	time.Sleep(300 * time.Millisecond)
	n.settle()
	if l, err := other.look(t.Context(), "a"); err != nil || !l.there {
		t.Errorf("the lease has gone with the timer of its former client (%v)", err)
	}
	goes(t, n, "a")
	if lived := time.Since(extended); lived < 2*time.Second {
		t.Errorf("a lease of 2s has lived for %v", lived)
	}
}

// A client that watches a lease has to see each extension, also one that looks as before.
func TestExtensionIsSeen(t *testing.T) {
	n := voting(t, freshURL())
	r := request("a", "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	last := time.Duration(0)
	for range 5 {
		want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
		l, err := n.look(t.Context(), "a")
		if err != nil || l.At <= last {
			t.Fatalf("changed at %v, and before at %v (%v)", l.At, last, err)
		}
		last = l.At
	}
}

// A session that is shorter than a lease would end it too early.
func TestLeaseLongerThanSessions(t *testing.T) {
	n := votingFor(t, time.Hour, freshURL())
	_, err := n.Do(t.Context(), as(node.Acquire, lasting(request("a", "me", 0), 11*time.Minute)))
	if !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) ||
		!strings.Contains(err.Error(), "maxSessionTimeout=665000") {
		t.Errorf("%v", err)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, lasting(request("a", "me", 0), 9*time.Minute))))
}

// A client that has no permission is told so, without the password.
func TestPermissions(t *testing.T) {
	url := freshURL()
	with := func(user string) string { return strings.Replace(url, "zk://", "zk://"+user+"@", 1) }
	owner := voting(t, with("lock:s3cret%3A%40"))
	voting(t, with("lock:s3cret%3A%40"))
	for _, stranger := range []string{url, with("lock:wr0ng"), with("other:s3cret%3A%40")} {
		n := open(t, stranger)
		_, err := n.Do(t.Context(), as(node.Acquire, request("a", "me", 0)))
		if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "no permission") ||
			strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("%v", err)
		}
		if strings.Contains(fmt.Sprint(n), "s3cret") || strings.Contains(fmt.Sprint(n), "wr0ng") {
			t.Errorf("the password is in %v", n)
		}
	}
	links(t, owner)
}

// links checks that no znode below the root is open to all users.
func links(t *testing.T, n *Node) {
	t.Helper()
	if n.acl[0].Scheme != "auth" {
		t.Error("znodes are made for everybody")
	}
}

// An ensemble that has lost everything, or a part, does not vote before its leases have
// ended, and tells.
func TestLostMemory(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t)
	const maxTTL = time.Second
	begin := func() {
		t.Helper()
		if err := server.Begin(); err != nil {
			t.Fatal(err)
		}
	}
	lease := func(label string) node.Request { return lasting(request("a", label, 0), maxTTL) }
	url, f := "zk://"+server.Addr(), new(faulty)
	n := votingFor(t, maxTTL, url, WithDial(f.dial))

	// A restart forgets nothing.
	r := lease("me")
	first := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	server.Kill()
	begin()
	if a := eventually(t, n, as(node.Extend, r)); a.Register != first.Register {
		t.Errorf("the origin is %d; want %d", a.Register, first.Register)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))

	// A backup that is older than the last tokens. Either the client that knows better comes
	// first, whom no server takes that is so far behind, or others have written meanwhile.
	for _, others := range []bool{false, true} {
		restore := backup(t, server)
		r = lease("me")
		newest := eventually(t, n, as(node.Acquire, r))
		f.sever()
		began := restore()
		stranger := openFor(t, maxTTL, false, url)
		if others {
			for range 40 {
				ready(t, stranger)
			}
		}
		f.cut.Store(false)
		if out := rejoining(t, n); out.Cause != node.SetBack || out.Wait <= 0 {
			t.Errorf("it is out because %v", out)
		}
		rejoining(t, stranger)
		a := eventually(t, n, as(node.Acquire, lease("next")))
		if passed := time.Since(began); passed < maxTTL {
			t.Errorf("voted %v after it had lost its memory, and the longest lease is %v", passed, maxTTL)
		}
		if a.Register <= newest.Register {
			t.Errorf("token %d before it was set back, %d after: a client was there who knew", newest.Register, a.Register)
		}
		want(t, node.Granted)(n.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: "a"}))
	}

	// And all of it.
	server.Kill()
	server.Wipe()
	began := time.Now()
	begin()
	rejoining(t, openFor(t, maxTTL, false, url))
	fresh := openFor(t, maxTTL, false, url)
	eventually(t, fresh, as(node.Acquire, lease("fresh")))
	if passed := time.Since(began); passed < maxTTL {
		t.Errorf("voted %v after it was wiped", passed)
	}
	settle(t, n, as(node.Acquire, lease("old")))
}

// rejoining waits until a node says that it does not vote, and why.
func rejoining(t *testing.T, n *Node) node.Absence {
	t.Helper()
	var last string
	for range 1500 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		a, err := n.Do(ctx, as(node.Acquire, lasting(request("b", "", 0), time.Second)))
		cancel()
		if err == nil && a.Status == node.Rejoining && (a.Absence.Cause == node.UnderWay || a.Absence.Cause == node.Failed) {
			last = a.Absence.String()
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err == nil && a.Status == node.Rejoining {
			if a.Absence == (node.Absence{}) {
				t.Fatalf("%+v; want that it says why", a)
			}
			return a.Absence
		}
		if err == nil {
			t.Fatalf("%+v; want rejoining", a)
		}
		last = err.Error()
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it does not rejoin: %s", last)
	return node.Absence{}
}

// An examination changes nothing, and says what is wrong.
func TestExamine(t *testing.T) {
	url := freshURL()
	n := open(t, url)
	e, err := n.Examine(t.Context(), node.Look{MaxTTL: time.Second})
	if err != nil || e.Admitted || e.Why == "" || e.Product != "ZooKeeper" || !strings.HasPrefix(e.Version, "3.") ||
		e.Wait <= 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if l, err := n.Inspect(t.Context(), "a"); err != nil || !l.Out {
		t.Errorf("%+v, %v: to look has admitted it", l, err)
	}
	ready(t, n)
	e, err = n.Examine(t.Context(), node.Look{MaxTTL: testMaxTTL})
	if err != nil || !e.Admitted || e.MaxTTL != testMaxTTL || e.Server == "" || e.Memory == "" || e.RoundTrip <= 0 ||
		len(e.Members) != 1 || e.Members[0] != e.Member {
		t.Errorf("%+v, %v", e, err)
	}
	checks := make(map[string]bool)
	for _, f := range e.Findings {
		checks[f.Check] = true
	}
	if !checks["permissions"] || !checks["standalone"] || len(checks) != 2 {
		t.Errorf("found %v", e.Findings)
	}
	down := open(t, "zk://127.0.0.1:1")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if e, err := down.Examine(ctx, node.Look{}); err == nil || len(e.Findings) != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}

// lapsing is a context that is done from the time on when it has been asked so often.
type lapsing struct {
	context.Context
	left atomic.Int32
	done chan struct{}
}

func (l *lapsing) Done() <-chan struct{} {
	if l.left.Add(-1) == 0 {
		close(l.done)
	}
	return l.done
}

func (l *lapsing) Err() error {
	select {
	case <-l.done:
		return context.Canceled
	default:
		return nil
	}
}

// A look at a lock ends with an error if the time is up, at whichever step.
func TestInspectGivesUp(t *testing.T) {
	n := voting(t, "zk://"+testserver.StartZooKeeper(t).Addr())
	for steps := range int32(30) {
		ctx := &lapsing{Context: t.Context(), done: make(chan struct{})}
		ctx.left.Store(steps + 1)
		_, err := n.Inspect(ctx, "a")
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("after %d steps: %v", steps, err)
		}
	}
}

// The longest lease of a group fits into a session, also one that is shared.
func TestLongestLease(t *testing.T) {
	n := votingFor(t, 3*time.Second, freshURL())
	for range 20 {
		r := lasting(request("a", "me", 0), 3*time.Second)
		r.Shared = true
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	}
}
