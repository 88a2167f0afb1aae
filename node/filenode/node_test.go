//go:build linux || darwin || freebsd

package filenode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
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
	path = filepath.Join(t.TempDir(), "locks")
	return open(t, path), path
}

// inBoot opens a node in a boot that the test makes up, with a clock of its own.
func inBoot(t testing.TB, path, boot string, now func() time.Duration) (*Node, error) {
	t.Helper()
	n := newIn(path)
	err := n.openIn(boot, now)
	t.Cleanup(func() { n.Close() })
	return n, err
}

// handOver has a node wait for a name that another one has, and that one release it.
func handOver(t testing.TB, waits, releases *Node, name, waiter string) {
	t.Helper()
	held := request(name, "", 0)
	want(t, node.Granted)(releases.Do(t.Context(), as(node.Acquire, held)))
	want(t, node.Held)(waits.Do(t.Context(), as(node.Acquire, asks(name, waiter, 1))))
	want(t, node.Granted)(releases.Do(t.Context(), as(node.Release, held)))
}

var (
	request = nodetest.Request
	as      = nodetest.As
	want    = nodetest.Want
)

// On the clock of this machine, and on one that the test moves, which the rules about the end of a
// queue need.
func TestConformance(t *testing.T) {
	var moved atomic.Int64
	for what, c := range map[string]struct {
		now  func() time.Duration
		wait func(time.Duration)
	}{
		"machine": {clock.Now, time.Sleep},
		"fake clock": {func() time.Duration { return time.Duration(moved.Load()) },
			func(d time.Duration) { moved.Add(int64(d)) }},
	} {
		t.Run(what, func(t *testing.T) {
			nodetest.Run(t, func(t *testing.T) nodetest.Harness {
				n, path := newNode(t)
				other := open(t, path)
				n.clock, other.clock = c.now, c.now
				h := nodetest.Harness{Node: n, Other: other, Wait: c.wait, Fast: what == "fake clock"}
				if what == "machine" {
					h.Reboot = func() node.Node {
						n.Close()
						other.Close()
						began := clock.Now()
						after, err := inBoot(t, path, "the next boot", func() time.Duration { return clock.Now() - began })
						if err != nil {
							t.Fatal(err)
						}
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
		{"file:///var/lib/x", "/var/lib/x", ""},
		{"file:x", "x", ""},
		{"file:dir/x", "dir/x", ""},
		{"file:/abs/x", "/abs/x", ""},
		{"file:///a%20b%3Fc%23d", "/a b?c#d", ""},
		{"file:a%20b", "a b", ""},
		{"file://host/x", "", "names a host"},
		{"file://x", "", "names a host"},
		{"file:///x?mode=memory", "", "parameters: mode=memory"},
		{"file:x?", "", "has parameters"},
		{"file:///x#part", "", "write %23"},
		{"sqlite:///x", "", "write file: instead of sqlite:"},
		{"postgres:///x", "", "is not a file: URL"},
		{"postgres://user:secret@host/db", "", "is not a file: URL"},
		{"/plain/path", "", "is not a file: URL"},
		{"file:///%zz", "", "not a URL"},
		{"file:%zz", "", "invalid URL escape"},
	} {
		path, err := parse(c.url)
		if c.problem == "" && (err != nil || path != c.path) {
			t.Errorf("%s: %q, %v; want %q", c.url, path, err, c.path)
		}
		if c.problem != "" && (!errors.Is(err, fenlock.ErrInvalid) || !strings.Contains(err.Error(), c.problem) ||
			strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %q, %v; want an ErrInvalid with %q", c.url, path, err, c.problem)
		}
	}
	for _, url := range []string{"file:", "file://", "file:%00"} {
		if _, err := Open(url); !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", url, err)
		}
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
	n, err := Open("file:folder/a%3Fb%23%25")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	path := filepath.Join(dir, "folder/a?b#%")
	if n.String() != path {
		t.Errorf("the node is called %q; want %q", n, path)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 600", info, err)
	}
	// A relative path stays what it was when the program changes its folder.
	t.Chdir(t.TempDir())
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
}

func BenchmarkAcquireRelease(b *testing.B) {
	n, _ := newNode(b)
	for b.Loop() {
		r := request("a", "", 0)
		want(b, node.Granted)(n.Do(context.Background(), as(node.Acquire, r)))
		want(b, node.Granted)(n.Do(context.Background(), as(node.Release, r)))
	}
}
