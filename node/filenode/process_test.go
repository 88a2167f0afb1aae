//go:build linux || darwin || freebsd

package filenode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// The tests below start this test binary again, as a child with a role.
const (
	roleVariable = "FENLOCK_FILENODE_ROLE"
	fileVariable = "FENLOCK_FILENODE_FILE"
)

var roles = map[string]func(*Node){"stuck": stuck}

func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	n, err := OpenFile(os.Getenv(fileVariable))
	if err != nil {
		fatal(err)
	}
	role(n)
	if err := n.Close(); err != nil {
		fatal(err)
	}
}

func fatal(v any) {
	fmt.Fprintln(os.Stderr, "child:", v)
	os.Exit(1)
}

// child starts this binary in a role and returns its output. It is killed at
// the latest when the test ends.
func child(t *testing.T, role, path string, env ...string) (*exec.Cmd, io.Reader, *strings.Builder) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role, fileVariable+"="+path), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, out, &stderr
}

// stuck takes the locks of some rooms and keeps them, as a process that is stopped in an operation
// does.
func stuck(n *Node) {
	if err := errors.Join(n.locks.lock(roomOf("a")), n.locks.lock(roomOf("b")), n.locks.lock(roomOf("c")),
		n.locks.lock(roomOf("d"))); err != nil {
		fatal(err)
	}
	fmt.Println("locked")
	time.Sleep(time.Hour)
}

// The context ends the wait for a lock that another process has. Nothing was executed then, now or
// later, but for a release, which is carried out when the file is free. What is in another room
// does not wait.
func TestContextEndsTheWaitForAnotherProcess(t *testing.T) {
	n, path := newNode(t)
	r := request("a", "me", 7)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	d := request("d", "me", 7)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, d)))
	cmd, out, stderr := child(t, "stuck", path)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("%q, %v: %s", line, err, stderr)
	}
	later := r
	later.Token = 50
	for _, r := range []node.Request{
		as(node.Acquire, request("b", "", 0)), as(node.Confirm, later), as(node.Extend, r), as(node.Release, d),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		_, err := n.Do(ctx, r)
		took, op := time.Since(start), r.Op
		cancel()
		problem(t, err, path, op.String())
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, node.ErrNotSent) != (op != node.Release) {
			t.Errorf("%s: %v is no context.DeadlineExceeded, or marked in the wrong way", op, err)
		}
		if took > 10*time.Second {
			t.Errorf("%s took %v with a deadline of 100ms", op, took)
		}
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("of another room", "", 0))))
	// A cancellation counts like a deadline; and a queue of callers in this
	// process does not delay it.
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := n.Do(ctx, as(node.Acquire, request("c", "", 0))); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	cancel()
	wg.Wait()

	// What waits gets its turn when the other process has ended.
	for range 5 {
		wg.Go(func() {
			if a, err := n.Do(t.Context(), as(node.Extend, r)); err != nil || a.Status != node.Granted {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	cmd.Process.Kill()
	cmd.Wait()
	wg.Wait()
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("d", "next", 0))))
	for _, name := range []string{"b", "c"} {
		if l, err := n.Inspect(t.Context(), name); err != nil || l.Remaining != 0 || l.Register != 0 {
			t.Errorf("%q after the refused acquires: %+v, %v", name, l, err)
		}
	}
}
