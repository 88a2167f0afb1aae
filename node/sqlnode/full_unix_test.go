//go:build unix

package sqlnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fenlock/fenlock/node"
)

func init() { roles["full"], roles["opens small"] = full, opensSmall }

// full writes below a limit on the size of files, which fails a write as a full
// disk does: in the commit, not before. Nothing that failed may be granted.
func full(n *Node) {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 64 << 10, Max: 64 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fatal(err)
	}
	for i := range 10_000 {
		name := fmt.Sprint("name ", i, strings.Repeat("x", 400))
		r := request(name, "", 0)
		if _, err := n.Do(context.Background(), as(node.Acquire, r)); err == nil {
			continue
		} else {
			fmt.Println(err)
		}
		if l, err := n.Inspect(context.Background(), name); err != nil || l.Remaining != 0 {
			fatal(fmt.Sprintf("after the failed acquire: %+v, %v", l, err))
		}
		fmt.Println(name)
		os.Exit(0) // as it is, without a checkpoint
	}
	fatal("the limit was never reached")
}

func TestWriteErrorInTheCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	cmd, out, stderr := child(t, "full", path)
	text, err := io.ReadAll(out)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 {
		t.Fatalf("the child said %q", text)
	}
	problem(t, errors.New(lines[0]), path, "acquire: ", "disk")
	n := open(t, path)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(lines[1], "", 0))))
	check(t, n)
}

// Where there is no room for the locks, SQLite says "disk I/O error" only.
func TestNoRoomForTheLocks(t *testing.T) {
	n, path := newNode(t)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	cmd, out, stderr := child(t, "opens small", path)
	text, err := io.ReadAll(out)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	problem(t, errors.New(string(text)), path, "open: ", "the disk is full", "free some space")
}

// opensSmall opens the file again, below a limit that leaves no room for what SQLite makes
// beside it.
func opensSmall(n *Node) {
	n.Close()
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4 << 10, Max: 4 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fatal(err)
	}
	_, err := OpenFile(n.path)
	fmt.Println(err)
	os.Exit(0)
}
