package filenode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

func init() { roles["binds"] = binds }

const sharedVariable = "FENLOCK_FILENODE_SHARED"

// binds has "a", bound to itself and to a process that it starts, and does nothing more.
func binds(n *Node) {
	alive, err := n.Bind()
	if err != nil {
		fatal(err)
	}
	stamp, _ := strconv.ParseInt(os.Getenv(stampVariable), 10, 64)
	r := asks("a", os.Getenv(waiterVariable), max(stamp, 1))
	r.Shared = os.Getenv(sharedVariable) != ""
	events := make(chan string, 100)
	if r.Place.Waiter != "" {
		if err := n.Listen(context.Background(), r.Place.Waiter[:32], func(w string) { events <- w }); err != nil {
			fatal(err)
		}
	}
	for {
		a, err := n.Do(context.Background(), as(node.Acquire, r))
		if err != nil {
			fatal(err)
		}
		if a.Status == node.Granted {
			break
		}
		fmt.Println("refused")
		<-events
	}
	in, out, err := os.Pipe()
	if err != nil {
		fatal(err)
	}
	cat := exec.Command("cat") // for ever: it can write to its input itself
	cat.Stdin, cat.ExtraFiles = in, []*os.File{alive, out}
	if err := cat.Start(); err != nil {
		fatal(err)
	}
	fmt.Println(cat.Process.Pid)
	select {}
}

// holder is a child that has "a", and what that has started.
type holder struct {
	*exec.Cmd
	lines *bufio.Scanner
	child int
}

// startHolder starts one. It has the lock, or waits for it if it is a waiter.
func startHolder(t *testing.T, path string, env ...string) *holder {
	t.Helper()
	cmd, out, stderr := child(t, "binds", path, env...)
	h := &holder{Cmd: cmd, lines: bufio.NewScanner(out)}
	if line := h.says(t, stderr); line != "refused" {
		h.holds(t, line)
	}
	return h
}

func (h *holder) says(t *testing.T, stderr fmt.Stringer) string {
	t.Helper()
	if !h.lines.Scan() {
		t.Fatalf("the child ended: %v", stderr)
	}
	return h.lines.Text()
}

func (h *holder) holds(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Sscan(line, &h.child); err != nil {
		t.Fatal(line, err)
	}
	t.Cleanup(func() { syscall.Kill(h.child, syscall.SIGKILL) })
}

// die kills the child and waits for its end.
func (h *holder) die() {
	h.Process.Kill()
	h.Wait()
}

// A bound lease is there while its process or one that has inherited it lives, stopped or not. The
// first in the queue hears at once when the last has been killed.
func TestBoundToProcesses(t *testing.T) {
	n, path := newNode(t)
	client := strings.Repeat("a", 32)
	events := listen(t, n, client)
	r := asks("a", client+":1", 1)

	h := startHolder(t, path)
	a := want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, r)))
	if a.Remaining != 0 {
		t.Errorf("%v are left of a lease without an end", a.Remaining)
	}
	if l, err := n.Inspect(t.Context(), "a"); err != nil || !l.Bound || !l.Leased {
		t.Errorf("%+v, %v", l, err)
	}
	h.Process.Signal(syscall.SIGSTOP)
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, r)))
	h.die()
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, r))) // its child has it
	events.silent(t)
	syscall.Kill(h.child, syscall.SIGKILL)
	events.hears(t, r.Place.Waiter)
	if l, err := n.Inspect(t.Context(), "a"); err != nil || l.Leased {
		t.Errorf("%+v, %v after the end of all", l, err)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
}

// A waiter that becomes the first in the queue hears of it, and then of the end of the holder.
func TestNextFirstHearsOfTheEnd(t *testing.T) {
	n, path := newNode(t)
	client := strings.Repeat("c", 32)
	events := listen(t, n, client)
	r := asks("a", client+":1", 2)

	first := startHolder(t, path)
	next := startHolder(t, path, waiterVariable+"="+strings.Repeat("b", 32)+":1") // its stamp is 1
	if a := want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, r))); a.Ahead != 1 {
		t.Fatalf("%+v", a)
	}
	first.die()
	syscall.Kill(first.child, syscall.SIGKILL)
	next.holds(t, next.says(t, next.Cmd))
	events.hears(t, r.Place.Waiter) // it is the first now
	if a := want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, r))); a.Ahead != 0 {
		t.Fatalf("%+v", a)
	}
	next.die()
	syscall.Kill(next.child, syscall.SIGKILL)
	events.hears(t, r.Place.Waiter)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
}

// A waiter that becomes the first because those before are dead hears of it, at the grant that
// shows.
func TestDeadOnesAreNotTheFirst(t *testing.T) {
	n, path := newNode(t)
	client := strings.Repeat("c", 32)
	events := listen(t, n, client)
	r := asks("a", client+":1", 3)

	h := startHolder(t, path)
	next := startHolder(t, path, waiterVariable+"="+strings.Repeat("a", 32)+":1") // its stamp is 1
	dead := startHolder(t, path, waiterVariable+"="+strings.Repeat("b", 32)+":1", stampVariable+"=2")
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, r)))
	dead.die()
	h.die()
	syscall.Kill(h.child, syscall.SIGKILL)
	next.holds(t, next.says(t, next.Cmd))
	events.hears(t, r.Place.Waiter)
	if a := want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, r))); a.Ahead != 0 {
		t.Errorf("%d are before it, who are dead", a.Ahead)
	}
}

// Of those who share a name each has its own end, and who wants it alone hears of all.
func TestBoundToProcessesThatShare(t *testing.T) {
	n, path := newNode(t)
	client := strings.Repeat("a", 32)
	events := listen(t, n, client)
	r := asks("a", client+":1", 1)
	one, other := startHolder(t, path, sharedVariable+"=1"), startHolder(t, path, sharedVariable+"=1")
	for _, h := range []*holder{one, other} {
		want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, r)))
		h.die()
		syscall.Kill(h.child, syscall.SIGKILL)
		events.hears(t, r.Place.Waiter)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
}

// A release ends a lease, whichever processes have inherited the file. Close ends none: the process
// still has what it did not release.
func TestInheritedFileKeepsNothingThatIsReleased(t *testing.T) {
	n, path := newNode(t)
	bound := open(t, path)
	alive, err := bound.Bind()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(alive.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	released, left := request("a", "", 0), request("b", "", 0)
	for _, r := range []node.Request{released, left} {
		want(t, node.Granted)(bound.Do(t.Context(), as(node.Acquire, r)))
		want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request(r.Name, "", 0))))
	}
	want(t, node.Granted)(bound.Do(t.Context(), as(node.Release, released)))
	if n.bound.lives(released.Holder) {
		t.Error("the byte of a holder that has released is locked")
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	if err := bound.Close(); err != nil {
		t.Fatal(err)
	}
	syscall.Close(fd)
	runtime.GC() // which closes files without a user
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request("b", "", 0))))
}

// To ask whether a bound lease is there writes nothing: a disk that is full does not end it.
func TestBoundLeaseIsNotWrittenAgain(t *testing.T) {
	_, path := newNode(t)
	n := open(t, path)
	if _, err := n.Bind(); err != nil {
		t.Fatal(err)
	}
	r := request("a", "", 0)
	token := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r))).Register
	r.OwnToken = token
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file was written (%v)", err)
	}
}

// A lease that is bound is another one's to extend by time, and then ends by that.
func TestBoundLeaseBecomesOneByTime(t *testing.T) {
	n, path := newNode(t)
	bound := open(t, path)
	if _, err := bound.Bind(); err != nil {
		t.Fatal(err)
	}
	r := request("a", "", 0)
	want(t, node.Granted)(bound.Do(t.Context(), as(node.Acquire, r)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	bound.bound.alive.Close() // as the end of its process does
	if a := want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))); a.Remaining <= 0 ||
		a.Remaining > r.TTL {
		t.Errorf("%v are left", a.Remaining)
	}
}

// Names that were bound to processes which have ended, and are never asked for again, take no room.
func TestNothingIsLeftOfTheDead(t *testing.T) {
	n, path := newNode(t)
	var names []string
	for i := 0; len(names) < 101; i++ {
		if name := fmt.Sprint("backup-", i); roomOf(name) == 7 {
			names = append(names, name)
		}
	}
	for _, name := range names[:100] {
		dies := open(t, path)
		if _, err := dies.Bind(); err != nil {
			t.Fatal(err)
		}
		want(t, node.Granted)(dies.Do(t.Context(), as(node.Acquire, request(name, "", 0))))
		dies.bound.alive.Close() // as the end of its process does
		dies.Close()
	}
	last := request(names[100], "", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, last)))
	r, err := readRoom(n, &n.header, 7)
	if err != nil || len(r.Leases) != 1 {
		t.Errorf("%d leases, %v", len(r.Leases), err)
	}
	leased := 0
	if err := n.List(t.Context(), "", func(node.Lease) bool { leased++; return true }); err != nil || leased != 1 {
		t.Errorf("%d leases listed, %v", leased, err)
	}
}

// Bind is refused twice, and if the path leads to another file by now, where no other process sees
// the lock.
func TestBindIsRefused(t *testing.T) {
	n, path := newNode(t)
	if _, err := n.Bind(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Bind(); err == nil {
		t.Error("bound twice")
	}
	other := open(t, path)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if _, err := other.Bind(); err == nil {
		t.Error("bound to a file that nobody else has")
	}
	if other.Binds() {
		t.Error("it binds after a refusal")
	}
	n.Close()
	closed := open(t, path)
	closed.Close()
	if _, err := closed.Bind(); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a closed node is bound: %v", err)
	}
}

// A node may be closed while it grants: nothing is locked by a file that is closed.
func TestBoundNodeIsClosedWhileItGrants(t *testing.T) {
	_, path := newNode(t)
	for range 20 {
		bound := open(t, path)
		if _, err := bound.Bind(); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for name := range 8 {
			wg.Go(func() {
				for {
					r := request(fmt.Sprint(name), "", 0)
					_, err := bound.Do(t.Context(), as(node.Acquire, r))
					bound.Do(t.Context(), as(node.Release, r))
					if errors.Is(err, engine.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		bound.Close()
		wg.Wait()
	}
}
