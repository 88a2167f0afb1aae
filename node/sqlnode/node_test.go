package sqlnode

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/nodetest"
)

// open opens a node that the test closes.
func open(t testing.TB, path string) *Node {
	t.Helper()
	n, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// newNode opens a node in a file of its own.
func newNode(t testing.TB) (n *Node, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "locks.db")
	return open(t, path), path
}

// handOver has a node wait for a name that another one has, and that one release it.
func handOver(t testing.TB, waits, releases *Node, name, waiter string) {
	t.Helper()
	held := request(name, "", 0)
	want(t, node.Granted)(releases.Do(t.Context(), as(node.Acquire, held)))
	want(t, node.Held)(waits.Do(t.Context(), as(node.Acquire, asks(name, waiter, 1))))
	want(t, node.Granted)(releases.Do(t.Context(), as(node.Release, held)))
}

func request(name, label string, token fence.Token) node.Request {
	id := make([]byte, 16)
	rand.Read(id)
	return node.Request{Name: name, Holder: node.Holder(hex.EncodeToString(id) + ":" + label), TTL: time.Minute, Token: token}
}

func want(t testing.TB, status node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		t.Helper()
		if err != nil || a.Status != status {
			t.Fatalf("got %+v, %v; want %v", a, err, status)
		}
		return a
	}
}

// On the clock of this machine, on the wall clock that other systems use, without a boot
// id, and on one that the test moves, which the rules about the end of a queue need.
func TestConformance(t *testing.T) {
	var moved atomic.Int64
	for what, c := range map[string]struct {
		change func(*Node)
		wait   func(time.Duration)
	}{
		"machine": {func(*Node) {}, time.Sleep},
		"wall clock": {func(n *Node) {
			n.boot, n.clock = "", func() time.Duration { return time.Duration(time.Now().UnixNano()) }
		}, time.Sleep},
		"fake clock": {func(n *Node) {
			n.sync, n.clock = "OFF", func() time.Duration { return time.Duration(moved.Load()) }
		}, func(d time.Duration) { moved.Add(int64(d)) }},
	} {
		t.Run(what, func(t *testing.T) {
			nodetest.Run(t, func(t *testing.T) nodetest.Harness {
				n, path := newNode(t)
				other := open(t, path)
				c.change(n)
				c.change(other)
				h := nodetest.Harness{Node: n, Other: other, Wait: c.wait, Fast: what == "fake clock"}
				if what == "machine" {
					h.Reboot = func() node.Node {
						after, began := open(t, path), clock.Now()
						after.boot, after.clock = "the next boot", func() time.Duration { return clock.Now() - began }
						return after
					}
				}
				return h
			})
		})
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ url, path, problem string }{
		{"sqlite:///var/lib/x.db", "/var/lib/x.db", ""},
		{"sqlite:x.db", "x.db", ""},
		{"sqlite:dir/x.db", "dir/x.db", ""},
		{"sqlite:/abs/x.db", "/abs/x.db", ""},
		{"sqlite:///a%20b%3Fc%23d.db", "/a b?c#d.db", ""},
		{"sqlite:a%20b.db", "a b.db", ""},
		{"sqlite://host/x.db", "", "names a host"},
		{"sqlite://x.db", "", "names a host"},
		{"sqlite:///x.db?mode=memory", "", "parameters: mode=memory"},
		{"sqlite:x.db?", "", "has parameters"},
		{"sqlite:///x.db#part", "", "write %23"},
		{"postgres:///x", "", "is not a sqlite: URL"},
		{"postgres://user:secret@host/db", "", "is not a sqlite: URL"},
		{"/plain/path", "", "is not a sqlite: URL"},
		{"sqlite:///%zz", "", "not a URL"},
		{"sqlite:%zz", "", "invalid URL escape"},
	} {
		path, err := parse(c.url)
		if c.problem == "" && (err != nil || path != c.path) {
			t.Errorf("%s: %q, %v; want %q", c.url, path, err, c.path)
		}
		if c.problem != "" && (!errors.Is(err, fenlock.ErrInvalid) || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %q, %v; want an ErrInvalid with %q", c.url, path, err, c.problem)
		}
	}
}

func TestMemoryIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{"sqlite::memory:", "sqlite:", "sqlite://", "sqlite::memory:?cache=shared"} {
		if n, err := Open(url); !errors.Is(err, fenlock.ErrInvalid) {
			if err == nil {
				n.Close()
			}
			t.Errorf("%s: %v, want ErrInvalid", url, err)
		}
	}
	if left, _ := os.ReadDir("."); len(left) != 0 {
		t.Errorf("files were made: %v", left)
	}
}

// Others of the machine must not read who holds what, let alone a holder's
// identity.
func TestOpenMakesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("folder", 0o755); err != nil {
		t.Fatal(err)
	}
	n, err := Open("sqlite:folder/a%3Fb%23%25.db")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	path := filepath.Join(dir, "folder/a?b#%.db")
	if n.String() != path {
		t.Errorf("the node is called %q; want %q", n, path)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	for file, mode := range map[string]os.FileMode{path: 0o600, path + "-wal": 0o600} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %o", file, info, err, mode)
		}
	}
	// A relative path stays what it was when the program changes its folder.
	t.Chdir(t.TempDir())
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
}

// A holder from before a reboot is dead. Its lease must not stay for what its
// expiry means on the new boot's clock, which began at zero; its register must.
func TestLeaseOfAnotherBootIsVoid(t *testing.T) {
	before, path := newNode(t)
	before.boot, before.clock = "another boot", func() time.Duration { return 1000 * time.Hour }
	old := request("a", "old", 7)
	want(t, node.Granted)(before.Do(t.Context(), as(node.Acquire, old)))
	want(t, node.Granted)(before.Do(t.Context(), as(node.Acquire, request("b", "old", 7))))

	// The same node, so that the rows are still there: opening deletes them.
	after := before
	after.boot, after.clock = "this boot", func() time.Duration { return time.Minute }
	if l, err := after.Inspect(t.Context(), "a"); err != nil || l.Remaining != 0 || l.Label != "" || l.Register != 7 {
		t.Errorf("inspect: %+v, %v", l, err)
	}
	if err := after.List(t.Context(), "", func(l node.Lease) bool { t.Errorf("listed: %+v", l); return true }); err != nil {
		t.Error(err)
	}
	want(t, node.Lost)(after.Do(t.Context(), as(node.Confirm, old)))
	want(t, node.Lost)(after.Do(t.Context(), as(node.Release, old)))
	if a := want(t, node.Granted)(after.Do(t.Context(), as(node.Acquire, request("a", "new", 0)))); a.Register != 8 {
		t.Errorf("granted %d; want 8", a.Register)
	}

	reopened := open(t, path) // drops the rows of other boots, both made-up ones
	if got := rows(t, reopened, "fenlock_leases"); got != 0 {
		t.Errorf("%d rows after opening in a third boot", got)
	}
}

// Names that are used once must not leave rows for ever.
func TestExpiredRowsAreDeleted(t *testing.T) {
	n := fast(t)
	var now atomic.Int64
	n.clock = func() time.Duration { return time.Duration(now.Load()) }
	largest := 0
	for i := range 2000 {
		r := request(fmt.Sprint("name ", i), "", 0)
		r.TTL = time.Second
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
		now.Add(int64(20 * time.Millisecond)) // 50 are live at any time
		if i%100 == 0 {
			largest = max(largest, rows(t, n, "fenlock_leases"))
		}
	}
	if largest > 60 {
		t.Errorf("%d rows for 50 live leases", largest)
	}
}

// One millisecond on either side of the expiry: the precision of the file.
func TestExpiryIsExact(t *testing.T) {
	n, _ := newNode(t)
	now := 5*time.Second + 999*time.Microsecond
	n.clock = func() time.Duration { return now }
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "one", 0))))
	now = 5*time.Second + time.Minute - 1
	if a := want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request("a", "two", 0)))); a.Remaining != time.Millisecond {
		t.Errorf("%v remain; want 1ms", a.Remaining)
	}
	now++
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "two", 0))))
}

func BenchmarkAcquireRelease(b *testing.B) {
	n := open(b, filepath.Join(b.TempDir(), "locks.db"))
	for b.Loop() {
		r := request("a", "", 0)
		want(b, node.Granted)(n.Do(context.Background(), as(node.Acquire, r)))
		want(b, node.Granted)(n.Do(context.Background(), as(node.Release, r)))
	}
}

// as is the request for an operation.
func as(op node.Op, r node.Request) node.Request {
	r.Op = op
	return r
}
