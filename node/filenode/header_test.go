//go:build linux || darwin || freebsd

package filenode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// steps are what a header does to its file, of which one may fail.
type steps struct {
	done []string
	fail int // the number of the step, 1 is the first
}

func (s *steps) step(what string) error {
	s.done = append(s.done, what)
	if len(s.done) == s.fail {
		return errors.New("it fails")
	}
	return nil
}

func (s *steps) WriteAt(b []byte, at int64) (int, error) {
	return len(b), s.step(fmt.Sprint("write ", b[24], " at ", at)) // the state
}
func (s *steps) Truncate(size int64) error { return s.step(fmt.Sprint("truncate ", size)) }
func (s *steps) Sync() error               { return s.step("sync") }

// A ceiling is said to be on the disk after it is there, and what fails ends it. Writes go over
// both copies in turn.
func TestOrderOfAHeader(t *testing.T) {
	for what, c := range map[string]struct {
		do   func(*header, headerFile) error
		want []string
	}{
		"settle": {func(h *header, f headerFile) error { return h.settle(f, 10) },
			[]string{"write 3 at 4096", "sync", "write 2 at 0", "sync", "write 3 at 4096"}},
		"begin": {func(h *header, f headerFile) error { return h.begin(f, place{inode: 1}, [64]byte{1}) },
			[]string{"write 3 at 4096", "sync", "write 1 at 0", "write 1 at 0", "sync",
				fmt.Sprint("truncate ", roomsAt), fmt.Sprint("truncate ", roomsEnd), "write 3 at 4096"}},
	} {
		for fail := range len(c.want) + 1 {
			h, f := header{seq: 7, state: settled, epoch: 4, base: 5, ceiling: 9}, &steps{fail: fail}
			err := c.do(&h, f)
			want := c.want
			if fail > 0 {
				want = want[:fail]
			}
			if (err == nil) != (fail == 0) || !slices.Equal(f.done, want) {
				t.Errorf("%s, and step %d fails: %q, %v", what, fail, f.done, err)
			}
			if what == "begin" && (fail == 0 || fail > 2) && (h.base != 9 || h.epoch != 5) {
				t.Errorf("%+v", h)
			}
		}
	}
}

// If a process is killed while it writes the header, the next process completes that: when the file
// is opened, and where it is open.
func TestHeaderCutOff(t *testing.T) {
	for state, emptied := range map[uint64]bool{begun: true, written: false} {
		n, path := newNode(t)
		r := request("a", "", 7)
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
		h, err := readHeader(n)
		if err != nil {
			t.Fatal(err)
		}
		h.ceiling += 100
		if err := h.put(n, state); err != nil {
			t.Fatal(err)
		}
		if state == written {
			want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("b", "", h.ceiling))))
		} else {
			n.Close()
		}
		after := open(t, path)
		if now, err := readHeader(after); err != nil || now.state != settled || now.seq <= h.seq || now.ceiling != h.ceiling {
			t.Errorf("state %d: now %+v, %v", state, now, err)
		}
		if l, err := after.Inspect(t.Context(), "a"); err != nil || l.Leased == emptied {
			t.Errorf("state %d: %+v, %v", state, l, err)
		}
	}
}

// Two processes open a file of another boot at the same time, or one that is missing: both get the
// same.
func TestOpenAtTheSameTime(t *testing.T) {
	for round := range 20 {
		path := filepath.Join(t.TempDir(), "locks")
		if round%2 == 0 {
			old, err := inBoot(t, path, "the boot before", func() time.Duration { return time.Hour })
			if err != nil {
				t.Fatal(err)
			}
			old.Close()
		}
		nodes := make(chan *Node, 8)
		for range cap(nodes) {
			go func() {
				n := newIn(path)
				if err := n.openIn("this boot", func() time.Duration { return time.Hour }); err != nil {
					t.Error(err)
				}
				nodes <- n
			}()
		}
		granted := 0
		for range cap(nodes) {
			n := <-nodes
			defer n.Close()
			if a, err := n.Do(t.Context(), as(node.Acquire, request("a", "", 0))); err != nil {
				t.Error(err)
			} else if a.Status == node.Granted {
				granted++
			}
		}
		if granted != 1 {
			t.Fatalf("%d have it", granted)
		}
	}
}

// Many raise the ceiling at the same time, in one node or from several: none undoes what another
// has written.
func TestRaisedAtTheSameTime(t *testing.T) {
	for _, nodes := range []int{1, 8} {
		path := filepath.Join(t.TempDir(), "locks")
		var all []*Node
		for range nodes {
			all = append(all, open(t, path))
		}
		for round := range 30 {
			var raised sync.WaitGroup
			for i := range 8 {
				token := fence.Token(8*round+(i*5)%8+1) * 2 * window
				raised.Go(func() { // each in a room of its own
					a, err := all[i%nodes].Do(t.Context(), as(node.Acquire, request(fmt.Sprint("name ", round, i), "", token)))
					if err != nil || a.Register != token {
						t.Errorf("%d nodes: %+v, %v; proposed %d", nodes, a, err, token)
					}
				})
			}
			raised.Wait()
			largest := fence.Token(8*round+8) * 2 * window
			if h, err := readHeader(all[0]); err != nil || h.ceiling < largest || h.state != settled {
				t.Fatalf("%d nodes: %+v, %v; %d was granted", nodes, h, err, largest)
			}
		}
	}
}

// The largest token there is leaves the file as it was.
func TestTokensUsedUp(t *testing.T) {
	n, path := newNode(t)
	r := as(node.ForceRelease, request("a", "", fence.MaxToken))
	want(t, node.Granted)(n.Do(t.Context(), r))
	_, err := n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))
	problem(t, err, path, "used up")
	want(t, node.Granted)(open(t, path).Do(t.Context(), as(node.Acquire, request("b", "", 0))))
}

// Places are one unless it is known that they are not.
func TestSamePlace(t *testing.T) {
	p := place{device: 1, inode: 2, born: 3}
	for other, same := range map[place]bool{p: true, {1, 2, 0}: true, {1, 2, 4}: false, {1, 3, 3}: false,
		{2, 2, 3}: false} {
		if p.same(other) != same || other.same(p) != same {
			t.Errorf("%v and %v", p, other)
		}
	}
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b := born(f); b != 0 && time.Since(time.Unix(0, int64(b))).Abs() > time.Hour {
		t.Errorf("it was made at %v", time.Unix(0, int64(b)))
	}
}
