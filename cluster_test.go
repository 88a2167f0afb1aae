package fenlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// cluster is a quorum group for one test, with one clock for everything in it.
type cluster struct {
	t         *testing.T
	nodes     []*faulty
	start     time.Time
	suspended time.Duration // the machine slept for so long; see suspend
	mu        sync.Mutex
}

// bubble runs a test on n nodes in a synctest bubble, where time passes only when every goroutine
// sleeps. A goroutine that the library leaves behind fails it.
func bubble(t *testing.T, n int, f func(*testing.T, *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, n, func(i int) string { return string(rune('a' + i)) })
		f(t, c)
		c.calm()
	})
}

func newCluster(t *testing.T, n int, named func(i int) string) *cluster {
	c := &cluster{t: t, start: time.Now()}
	for i := range n {
		member := memnode.New(named(i))
		c.nodes = append(c.nodes, &faulty{Node: member, view: member.Share(), start: c.start, faults: map[string]fault{}})
	}
	return c
}

// calm has what is under way end, before the lockers are closed.
func (c *cluster) calm() {
	for _, f := range c.nodes {
		f.heal()
	}
	time.Sleep(10 * nodeTimeout)
}

// bubbles runs a test in a bubble for each of the cases.
func bubbles[C any](t *testing.T, n int, cases map[string]C, f func(*testing.T, *cluster, C)) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) { f(t, c, test) })
		})
	}
}

// now is the clock of the lockers.
func (c *cluster) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.start) + c.suspended
}

// suspend makes the lockers' clock jump while timers stand still, which is what
// CLOCK_BOOTTIME and Go's timers do when the machine sleeps.
func (c *cluster) suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended += d
}

// locker returns a client of the cluster, as another process would have it. It
// polls: its nodes keep no queues.
func (c *cluster) locker(change ...func(*fenlock.Config)) *fenlock.Locker {
	c.t.Helper()
	return c.lockerOn((*faulty).node, change...)
}

// queuer returns a client whose nodes keep queues.
func (c *cluster) queuer(change ...func(*fenlock.Config)) *fenlock.Locker {
	c.t.Helper()
	return c.lockerOn((*faulty).queuer, change...)
}

func (c *cluster) lockerOn(n func(*faulty) fenlock.Node, change ...func(*fenlock.Config)) *fenlock.Locker {
	c.t.Helper()
	config := fenlock.Config{Label: "me", Clock: c.now}
	for _, f := range c.nodes {
		config.Nodes = append(config.Nodes, n(f))
	}
	for _, f := range change {
		f(&config)
	}
	return newLocker(c.t, config)
}

// newLocker returns a Locker that is closed at the end of the test.
func newLocker(t *testing.T, config fenlock.Config) *fenlock.Locker {
	t.Helper()
	l, err := fenlock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// take returns a lock on a name that must be free.
func take(t *testing.T, l *fenlock.Locker, name string) *fenlock.Lock {
	t.Helper()
	lock, err := l.TryAcquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func label(s string) func(*fenlock.Config) {
	return func(c *fenlock.Config) { c.Label = s }
}

func maxHold(d time.Duration) func(*fenlock.Config) {
	return func(c *fenlock.Config) { c.MaxHold = d }
}

// held returns a lock on name, and lets the nodes that were not needed for the
// majority answer too.
func (c *cluster) held(change ...func(*fenlock.Config)) *fenlock.Lock {
	c.t.Helper()
	lock := take(c.t, c.locker(change...), name)
	synctest.Wait()
	return lock
}

// set gives the nodes from..to-1 the same fault.
func (c *cluster) set(from, to int, op string, how fault) {
	for _, f := range c.nodes[from:to] {
		f.set(op, how)
	}
}

// future is a token that no wall clock of a bubble proposes: those start in 2000.
const future fence.Token = 1 << 51

// raise sets the register of name's stripe on a node, as a client does that was granted that number
// there and nowhere else.
func (c *cluster) raise(i int, token fence.Token) {
	c.t.Helper()
	r := node.Request{Op: node.Acquire, Name: name, Holder: holder("before"), TTL: ttl, Token: token}
	if a, err := c.nodes[i].Node.Do(context.Background(), r); err != nil || a.Register != token {
		c.t.Fatalf("%+v, %v", a, err)
	}
	r.Op = node.Release
	if _, err := c.nodes[i].Node.Do(context.Background(), r); err != nil {
		c.t.Fatal(err)
	}
}

func holder(label string) node.Holder {
	return node.Holder("00112233445566778899aabbccddeeff:" + label)
}

// leased gives a lease on some nodes to a client that is no Locker.
func (c *cluster) leased(from, to int, label string, d time.Duration) {
	c.t.Helper()
	for _, f := range c.nodes[from:to] {
		r := node.Request{Op: node.Acquire, Name: name, Holder: holder(label), TTL: d}
		if a, err := f.Node.Do(context.Background(), r); err != nil || a.Status != node.Granted {
			c.t.Fatalf("%+v, %v", a, err)
		}
	}
}

// forced releases name by force on some nodes.
func (c *cluster) forced(from, to int, floor fence.Token) {
	c.t.Helper()
	for _, f := range c.nodes[from:to] {
		if _, err := f.Node.Do(context.Background(),
			node.Request{Op: node.ForceRelease, Name: name, Token: floor}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// crash makes a node lose its memory and be admitted again at once, with
// the registers it had or with none.
func (c *cluster) crash(i int, tokens map[int]fence.Token) {
	n := c.nodes[i].Node
	n.Crash()
	n.Restart()
	n.Admit(tokens)
}

// leases returns on how many nodes a name is leased at this moment.
func (c *cluster) leases(name string) int {
	c.t.Helper()
	n := 0
	for i := range c.nodes {
		if c.lease(i, name).Remaining > 0 {
			n++
		}
	}
	return n
}

func (c *cluster) lease(i int, name string) node.Lease {
	c.t.Helper()
	l, err := c.nodes[i].view.Inspect(context.Background(), name)
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// requests returns how many requests of one kind all nodes have had.
func (c *cluster) requests(op string) int {
	n := 0
	for _, f := range c.nodes {
		n += len(f.times(op))
	}
	return n
}

// wantRequests fails unless all nodes have had so many requests of one kind.
func (c *cluster) wantRequests(op string, want int) {
	c.t.Helper()
	if got := c.requests(op); got != want {
		c.t.Errorf("%d requests %s, want %d", got, op, want)
	}
}

// wantLeases lets everything that needs no time happen first.
func (c *cluster) wantLeases(want int) {
	c.t.Helper()
	synctest.Wait()
	if got := c.leases(name); got != want {
		c.t.Errorf("at %v: %d nodes have a lease, want %d", c.now(), got, want)
	}
}

// wantFree wants no node to have any of the names leased.
func (c *cluster) wantFree(names ...string) {
	c.t.Helper()
	for _, name := range names {
		if n := c.leases(name); n != 0 {
			c.t.Errorf("%s is still leased on %d nodes", name, n)
		}
	}
}

func wantRemaining(t *testing.T, lock *fenlock.Lock, want time.Duration) {
	t.Helper()
	if got := lock.Remaining(); got != want {
		t.Errorf("%v remain, want %v", got, want)
	}
}

// wantNow fails unless exactly so much time has passed since the test began.
func (c *cluster) wantNow(want time.Duration) {
	c.t.Helper()
	if got := time.Since(c.start); got != want {
		c.t.Errorf("it is %v now, want %v", got, want)
	}
}

// wantErr fails unless err matches all of wants. Where none is wanted, an error ends the test: the
// lock that came with it is nil.
func wantErr(t *testing.T, err error, wants ...error) {
	t.Helper()
	if len(wants) == 0 && err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	for _, want := range wants {
		if !errors.Is(err, want) {
			t.Errorf("the error %v does not match %q", err, want)
		}
	}
}

// wantPanic fails unless f panics: an observer's panic reaches the caller of what it hears of.
func wantPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if _, own := recover().(string); !own {
			t.Error("no panic of the observer")
		}
	}()
	f()
}

// wantNot fails if err matches one of the others: callers decide by errors.Is. To match too much is
// as wrong as to match too little.
func wantNot(t *testing.T, err error, others ...error) {
	t.Helper()
	for _, other := range others {
		if errors.Is(err, other) {
			t.Errorf("the error %v matches %q", err, other)
		}
	}
}

// wantCause waits for everything at this instant, then wants ctx ended so. A
// nil cause: not ended.
func wantCause(t *testing.T, ctx context.Context, want error) {
	t.Helper()
	synctest.Wait()
	switch cause := context.Cause(ctx); {
	case want == nil && cause != nil:
		t.Errorf("the context has ended: %v", cause)
	case want != nil && cause == nil:
		t.Errorf("the context has not ended, want %q", want)
	case !errors.Is(cause, want):
		t.Errorf("the context ended with %v, want %q", cause, want)
	}
}
