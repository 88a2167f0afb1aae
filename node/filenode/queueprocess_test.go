//go:build linux || darwin || freebsd

package filenode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

func init() { roles["waits"] = waits }

const (
	waiterVariable = "FENLOCK_FILENODE_WAITER"
	stampVariable  = "FENLOCK_FILENODE_STAMP"
)

// waits is in the queue of "a" and does nothing before it is notified: what it
// gets, it got by a notification.
func waits(n *Node) {
	waiter := os.Getenv(waiterVariable)
	stamp, err := strconv.ParseInt(os.Getenv(stampVariable), 10, 64)
	if err != nil {
		fatal(err)
	}
	events := make(chan string, 100)
	if err := n.Listen(context.Background(), waiter[:32], func(w string) { events <- w }); err != nil {
		fatal(err)
	}
	for {
		r := asks("a", waiter, stamp)
		a, err := n.Do(context.Background(), as(node.Acquire, r))
		if err != nil {
			fatal(err)
		}
		if a.Status == node.Granted {
			fmt.Println("granted", uint64(a.Register))
			r.Place.Stamp = 0
			if _, err := n.Do(context.Background(), as(node.Release, r)); err != nil {
				fatal(err)
			}
			return
		}
		fmt.Println("refused")
		if got := <-events; got != waiter {
			fatal(fmt.Sprintf("heard %q", got))
		}
	}
}

// waiting is a child that waits.
type waiting struct {
	*exec.Cmd
	waiter string
	stderr *strings.Builder
	lines  chan string // of its output
}

// waitFor starts a child that waits for "a", and returns when it is in the queue.
func waitFor(t *testing.T, path, client string, stamp int) *waiting {
	t.Helper()
	w := &waiting{waiter: client + ":1", lines: make(chan string, 100)}
	cmd, out, stderr := child(t, "waits", path, waiterVariable+"="+w.waiter, fmt.Sprint(stampVariable, "=", stamp))
	w.Cmd, w.stderr = cmd, stderr
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.lines <- lines.Text()
		}
		close(w.lines)
	}()
	if line := w.says(t); line != "refused" {
		t.Fatalf("the child says %q", line)
	}
	return w
}

func (w *waiting) says(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-w.lines:
		if !ok {
			w.Wait()
			t.Fatalf("the child ended: %s", w.stderr)
		}
		return line
	case <-time.After(patience):
		t.Fatal("the child says nothing")
	}
	return ""
}

// granted waits until the child has had the lock, and returns its token.
func (w *waiting) granted(t *testing.T) (token uint64) {
	t.Helper()
	for {
		line := w.says(t)
		if _, err := fmt.Sscan(strings.TrimPrefix(line, "granted "), &token); err == nil {
			return token
		} else if line != "refused" {
			t.Fatalf("the child says %q", line)
		}
	}
}

func clients(n int) (all []string) {
	for i := range n {
		all = append(all, strings.Repeat(strconv.Itoa(i), 32))
	}
	return all
}

// A release wakes the first in the queue, in another process, and so on to the last.
func TestReleaseWakesOtherProcessesInOrder(t *testing.T) {
	n, path := newNode(t)
	held := request("a", "", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	children := make([]*waiting, 4)
	for _, i := range []int{3, 1, 0, 2} {
		children[i] = waitFor(t, path, clients(4)[i], 10+i)
	}
	if got := len(inFolder(t, path)); got != 4 {
		t.Errorf("%d pipes", got)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, held)))
	var tokens []uint64
	for _, c := range children {
		tokens = append(tokens, c.granted(t))
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %s", err, c.stderr)
		}
	}
	if !slices.IsSorted(tokens) {
		t.Errorf("the waiters, by stamp, got the tokens %v", tokens)
	}
	if left := inFile(t, n, "a").Queues; len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	if names := inFolder(t, path); len(names) != 0 {
		t.Errorf("%q are left", names)
	}
}

// kill -9. Only the waiter that is notified does anything after the release, so it has its lock at
// once or never.
func TestKilledWaiterIsSkipped(t *testing.T) {
	n, path := newNode(t)
	held := request("a", "", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	var children []*waiting
	for i, client := range clients(4) {
		children = append(children, waitFor(t, path, client, 10+i))
	}
	for _, i := range []int{0, 1, 3} {
		children[i].Process.Kill()
		children[i].Wait()
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, held)))
	children[2].granted(t)
	if err := children[2].Wait(); err != nil {
		t.Errorf("%v: %s", err, children[2].stderr)
	}
	// Its own release found the last one dead.
	if names := inFolder(t, path); len(names) != 0 {
		t.Errorf("%q are left", names)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
}

// A process that is stopped can be told, but does not come. What is reserved for it ends, and then
// any request makes the node notify the next. When it goes on, it finds its notification and asks.
func TestStoppedWaiterIsPassedOver(t *testing.T) {
	n, path := newNode(t)
	held := request("a", "", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	stopped := waitFor(t, path, clientA, 10)
	next := waitFor(t, path, clientB, 20)
	if err := stopped.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Until it has stopped, it could still take the lock of a room, and stop with it.
	var status syscall.WaitStatus
	err := ignoringEINTR(func() error {
		_, err := syscall.Wait4(stopped.Process.Pid, &status, syscall.WUNTRACED, nil)
		return err
	})
	if err != nil || !status.Stopped() {
		t.Fatalf("%v, %v", status, err)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, held)))
	if e := entry(t, n, "a"); e.Holder != node.Reserved(stopped.waiter) {
		t.Fatalf("not reserved for the stopped one: %+v", e)
	}
	if l := inFile(t, n, "a").Queues["a"].Waiters; len(l) != 1 || l[0].Waiter != next.waiter {
		t.Errorf("in the queue: %v", l)
	}
	eventually(t, "the next one is notified", func() bool {
		w := asks("a", strings.Repeat("c", 32)+":1", 30) // cannot be told
		a, err := n.Do(t.Context(), as(node.Acquire, w))
		if err != nil || a.Status != node.Held {
			t.Fatalf("%+v, %v: the name was not reserved for those in the queue", a, err)
		}
		return entry(t, n, "a").Holder != node.Reserved(stopped.waiter)
	})
	next.granted(t)
	if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	stopped.granted(t)
}

// The pipes of processes that were killed go with the next one that listens.
func TestDeadPipesAreSwept(t *testing.T) {
	n, path := newNode(t)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	var children []*waiting
	for i, client := range clients(4) {
		children = append(children, waitFor(t, path, client, 10+i))
	}
	for _, c := range children[1:] {
		c.Process.Kill()
		c.Wait()
	}
	for _, old := range []string{draftPrefix + "a", draftPrefix + "b"} {
		pipe := filepath.Join(path+"-waiters", old)
		at := time.Now().Add(-2 * draftAge)
		if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Chtimes(pipe, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	listen(t, n, clientA)
	if names := inFolder(t, path); len(names) != 2 || names[0] != clients(1)[0] || names[1] != clientA {
		t.Errorf("after the sweep: %q", names)
	}
}

// What has died is found among many that live, wherever it is in the folder, though a sweep looks
// at some only.
func TestSweepFindsAllInTheEnd(t *testing.T) {
	n, path := newNode(t)
	folder := path + "-waiters"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const live, dead = 200, 40 // more than one sweep looks at
	for i := range live + dead {
		pipe := filepath.Join(folder, fmt.Sprintf("%032x", i))
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		if i%6 > 0 {
			reader, err := openToRead(pipe)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
		}
	}
	before := len(inFolder(t, path))
	n.sweep()
	if swept := before - len(inFolder(t, path)); before != live+dead || swept > sweepSize {
		t.Errorf("one sweep removed %d of %d", swept, before)
	}
	for range 500 { // each finds one with at least 13 %
		n.sweep()
	}
	if left := len(inFolder(t, path)); left != live {
		t.Errorf("%d are left of %d that live", left, live)
	}
}
