//go:build linux || darwin || freebsd

package command

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/filenode"
)

// wild has everything in a text that a writer to the nodes may choose.
const wild = "a\x1b]0;x\a\u009b2J\u0085\x7fb\u202ec\u00a0d\U000e0001<&>\u2028"

// store leases names in the default file, for a minute.
func (h *home) store(holder string, names ...string) {
	h.t.Helper()
	folder := filepath.Join(h.state, "fenlock")
	must(h.t, os.MkdirAll(folder, 0o700))
	n, err := filenode.OpenFile(filepath.Join(folder, "locks"))
	must(h.t, err)
	defer n.Close()
	for _, name := range names {
		r := node.Request{Op: node.Acquire, Name: name, Holder: node.Holder(holder), TTL: time.Minute, Token: 1}
		if a, err := n.Do(h.t.Context(), r); err != nil || a.Status != node.Granted {
			h.t.Fatalf("%q: %+v, %v", name, a, err)
		}
	}
}

// Nothing that others wrote reaches the terminal as it is, in the documents for programs
// either, which mean the same.
func TestNothingControlsTheTerminal(t *testing.T) {
	h := newHome(t)
	h.store(strings.Repeat("0", node.IDLength)+":"+wild, wild)
	for _, args := range []string{"ls", "ls --json", "__complete inspect a", "__completeNoDesc inspect a"} {
		r := h.start(append([]string{"fenlock"}, strings.Fields(args)...)...)
		text := r.rest()
		r.want(0)
		for _, r := range text + r.stderr.String() {
			if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
				t.Errorf("%s prints %U", args, r)
			}
		}
		if args != "ls --json" {
			continue
		}
		var list listDoc
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Locks) != 1 || list.Locks[0].Name != wild ||
			list.Locks[0].Holder != wild {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A name that others chose is completed if it can be one, and nothing else is.
func TestNamesAreCompleted(t *testing.T) {
	h := newHome(t)
	h.store(strings.Repeat("0", node.IDLength)+":host/42", "a/1", "a b/ü", "a\n:4", "a\x1b[2J")
	r := h.start("fenlock", "__complete", "release", "--force", "")
	text := r.rest()
	if want := "a b/ü\thost/42\na/1\thost/42\n:4\n"; text != want {
		t.Errorf("%q; want %q", text, want)
	}
	r.want(0)
}

// A pattern finds the locks that it matches, however many others lie between them, and
// whether there are more.
func TestPatternsAndLimits(t *testing.T) {
	h := newHome(t)
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("x%02d", i))
	}
	h.store("somebody", names...)
	for _, c := range []struct {
		args string
		want int
		more bool
	}{
		{"--limit 2 x*5", 2, true}, {"--limit 3 x*5", 3, true}, {"--limit 4 x*5", 4, false}, {"--limit 5 x*5", 4, false},
		{"--limit 1 x39", 1, false}, {"--limit 1 x3?", 1, true}, {"--limit 40", 40, false}, {"--limit 39", 39, true},
		{"--limit 3 *y", 0, false},
	} {
		var list listDoc
		err := json.Unmarshal([]byte(h.output(0, "ls --json "+c.args)), &list)
		if err != nil || len(list.Locks) != c.want || list.More != c.more {
			t.Errorf("%s: %d locks, more: %v; want %d, %v (%v)", c.args, len(list.Locks), list.More, c.want, c.more, err)
		}
	}
	h.start("fenlock", "ls", "x\xff*").want(exitUsage, "not valid UTF-8")
}

// What cannot be printed is not said to have been.
func TestOutputThatIsFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		return // there is none on this system
	}
	h := newHome(t)
	h.store(strings.Repeat("0", node.IDLength)+":host/42", "a")
	for _, c := range []struct{ args, said string }{
		{"acl", "cannot print"}, {"version", "cannot print"}, {"ls", "cannot print"},
		{"release --force --yes a", "broken all the same: a, held by host/42"},
		{"release --force --yes a", "cannot print"},
	} {
		h.start("sh", "-c", "exec fenlock "+c.args+" >/dev/full").want(exitNoQuorum, c.said)
	}
	// Where there is no reader any more, that is no error to speak of.
	read, write, err := os.Pipe()
	must(t, err)
	read.Close()
	defer write.Close()
	var said strings.Builder
	closed := exec.Command(program, "acl", "--quiet")
	closed.Stdout, closed.Stderr = write, &said
	if closed.Run(); closed.ProcessState.ExitCode() != exitSignal+int(syscall.SIGPIPE) || said.String() != "" {
		t.Errorf("%v: %s", closed.ProcessState, &said)
	}
}
