//go:build linux || darwin || freebsd

package filenode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// patience is how long a test waits for something that should come at once.
const patience = 30 * time.Second

// notified are the notifications of a client.
type notified chan string

// listen makes a client listen.
func listen(t testing.TB, n *Node, client string) notified {
	t.Helper()
	heard := make(notified, 1000)
	if err := n.Listen(t.Context(), client, func(waiter string) { heard <- waiter }); err != nil {
		t.Fatal(err)
	}
	return heard
}

// hears waits for the next event.
func (e notified) hears(t testing.TB, waiter string) {
	t.Helper()
	select {
	case got := <-e:
		if got != waiter {
			t.Fatalf("heard %q; want %q", got, waiter)
		}
	case <-time.After(patience):
		t.Fatalf("heard nothing; want %q", waiter)
	}
}

func (e notified) silent(t testing.TB) {
	t.Helper()
	select {
	case got := <-e:
		t.Fatalf("heard %q; want nothing", got)
	default:
	}
}

// inFolder lists the folder of the pipes.
func inFolder(t testing.TB, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(path + "-waiters")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// eventually waits until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks")
	before := runtime.NumGoroutine()
	one, two := open(t, path), open(t, path)
	listen(t, one, clientA)
	listen(t, two, clientB)
	if names := inFolder(t, path); len(names) != 2 {
		t.Errorf("the folder has %q; want two pipes", names)
	}
	one.Close()
	if names := inFolder(t, path); len(names) != 1 || names[0] != clientB {
		t.Errorf("the folder has %q; want the pipe of the other", names)
	}
	two.Close()
	if names := inFolder(t, path); len(names) != 0 {
		t.Errorf("the folder has %q after both were closed", names)
	}
	eventually(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before })
	err := one.Listen(t.Context(), clientA, func(string) {})
	problem(t, err, path, "closed")
	if err := one.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	// The waiters of one that has closed cannot be notified.
	n := open(t, path)
	handOver(t, n, n, "a", clientA+":1")
	if l, err := n.Inspect(t.Context(), "a"); err != nil || l.Remaining != 0 {
		t.Errorf("%+v, %v; want it free", l, err)
	}
}

func TestOneListenerForAClient(t *testing.T) {
	n, path := newNode(t)
	heard := listen(t, n, clientA)
	for _, n := range []*Node{n, open(t, path)} {
		if err := n.Listen(t.Context(), clientA, func(string) {}); !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("a second Listen: %v", err)
		}
	}
	write(t, path, clientA, "7\n")
	heard.hears(t, clientA+":7")
}

// write writes to a pipe, as every process can that may write to the file.
func write(t testing.TB, path, client, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(path+"-waiters", client), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestMessagesAreNotTrusted(t *testing.T) {
	n, path := newNode(t)
	heard := listen(t, n, clientA)
	for _, bad := range []string{"\n", "x\n", "-1\n", "1 \n", " 1\n", "1:2\n", "12345678901234567890\n", "\x00\n",
		strings.Repeat("9", 10_000) + "\n",
		strings.Repeat("9", 4096) + "5\n", strings.Repeat("\n", 100)} {
		write(t, path, clientA, bad)
		write(t, path, clientA, "1\n")
		heard.hears(t, clientA+":1")
	}
	write(t, path, clientA, "1")
	write(t, path, clientA, "2\n3\n")
	heard.hears(t, clientA+":12")
	heard.hears(t, clientA+":3")
}

// Each notification opens the pipe of the one who is notified.
func TestNotificationsLeakNoDescriptors(t *testing.T) {
	n, _ := newNode(t)
	heard := listen(t, n, clientA)
	lowest := func() int { // of the descriptors that are free
		fd, err := syscall.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		syscall.Close(fd)
		return fd
	}
	before := lowest()
	for range 100 {
		handOver(t, n, n, "a", clientA+":1")
		heard.hears(t, clientA+":1")
		want(t, node.Lost)(n.Do(t.Context(), as(node.Release, asks("a", clientA+":1", 0))))
	}
	if after := lowest(); after > before+50 {
		t.Errorf("the lowest free descriptor was %d, and is %d", before, after)
	}
}

// A process that is stopped reads nothing. Telling it must not wait for it.
func TestFullPipeCountsAsTold(t *testing.T) {
	n, _ := newNode(t)
	unread, err := n.makePipe(clientA)
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	unread.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil {
		_, err = unread.Write(make([]byte, 512))
	}
	handOver(t, n, n, "a", clientA+":1")
	if e := entry(t, n, "a"); e.Holder != node.Reserved(clientA+":1") {
		t.Errorf("the name is not reserved: %+v", e)
	}
}

// A process that may only read the file has no business in the folder. A process that can open a
// pipe to read it takes the notifications.
func TestFolderHasTheFilesPermissions(t *testing.T) {
	for file, modes := range map[os.FileMode][2]os.FileMode{
		0o600: {0o700, 0o200}, 0o644: {0o700, 0o200}, 0o660: {0o770, 0o220}, 0o664: {0o770, 0o220}, 0o666: {0o777, 0o222}} {
		n, path := newNode(t)
		listen(t, n, clientB) // the file's permissions change later
		if err := os.Chmod(path, file); err != nil {
			t.Fatal(err)
		}
		listen(t, n, clientA)
		for i, p := range []string{path + "-waiters", filepath.Join(path+"-waiters", clientA)} {
			if info, err := os.Stat(p); err != nil || info.Mode().Perm() != modes[i] {
				t.Errorf("%s: %v, %v; want %o beside a file of %o", p, info.Mode(), err, modes[i], file)
			}
		}
	}
}

// A caller gives up while its release is carried out, on a slow disk. The waiter is told, and
// nothing stays open.
func TestReleaseGoesOnAlone(t *testing.T) {
	n, _ := newNode(t)
	heard := listen(t, n, clientA)
	held := request("a", "", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", clientA+":1", 1))))
	real, begun, slow := n.clock, make(chan struct{}), make(chan struct{})
	n.clock = func() time.Duration { close(begun); <-slow; return real() }
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() {
		_, err := n.Do(ctx, as(node.Release, held))
		answer <- err
	}()
	<-begun
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) || errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v", err)
	}
	close(slow)
	heard.hears(t, clientA+":1")
}

// A node that is closed during an operation lets it end, and carries out no other one.
func TestCloseDuringAnOperation(t *testing.T) {
	n, path := newNode(t)
	held := request("a", "", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	real, begun, slow := n.clock, make(chan struct{}), make(chan struct{})
	n.clock = func() time.Duration { close(begun); <-slow; return real() }
	answer := make(chan error)
	go func() {
		_, err := n.Do(context.Background(), as(node.Release, held))
		answer <- err
	}()
	<-begun
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "the end waits for the operation", func() bool {
		ended := !n.life.TryRLock()
		if !ended {
			n.life.RUnlock()
		}
		return ended
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := n.Do(ctx, as(node.Acquire, request("of another room", "", 0)))
	if problem(t, err, path, "closed"); !errors.Is(err, engine.ErrClosed) {
		t.Error(err)
	}
	close(slow)
	if err := <-answer; err != nil {
		t.Errorf("the release: %v", err)
	}
	eventually(t, "the file is closed", func() bool { _, err := n.Stat(); return errors.Is(err, os.ErrClosed) })
	_, err = n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))
	problem(t, err, path, "closed")
	if l, err := open(t, path).Inspect(t.Context(), "a"); err != nil || l.Leased {
		t.Errorf("%+v, %v", l, err)
	}
}

// The folder is tidied up. The waiters are reachable again soon after one of them has asked, and
// told to ask.
func TestFolderDeleted(t *testing.T) {
	n, path := newNode(t)
	heard := listen(t, n, clientA)
	other := open(t, path)
	held := request("a", "", 0)
	want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, held)))
	w := asks("a", clientA+":1", 1)
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, w)))
	if err := os.RemoveAll(path + "-waiters"); err != nil {
		t.Fatal(err)
	}
	heard.silent(t)
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, w)))
	heard.hears(t, "")
	want(t, node.Granted)(other.Do(t.Context(), as(node.Release, held)))
	heard.hears(t, clientA+":1")
	// A pipe that was replaced is not touched at the end.
	pipe := filepath.Join(path+"-waiters", clientA)
	if err := errors.Join(os.WriteFile(path+"-mine", []byte("mine"), 0o600), os.Rename(path+"-mine", pipe)); err != nil {
		t.Fatal(err)
	}
	n.Close()
	if text, err := os.ReadFile(pipe); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

// A waiter that cannot be notified is an error that says why, and what to do.
// Nothing else breaks; and it goes on in the background.
func TestFolderCannotBeMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks")
	if err := os.WriteFile(path+"-waiters", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n := open(t, path)
	heard := make(notified, 1000)
	err := n.Listen(t.Context(), clientA, func(waiter string) { heard <- waiter })
	problem(t, err, path+"-waiters", "listen", "not a directory", "waiters cannot be notified")
	if !errors.Is(err, fenlock.ErrMisconfigured) {
		t.Errorf("%v is for somebody to mend", err)
	}
	handOver(t, n, n, "a", clientA+":1") // sends no notification
	w2 := asks("a", clientA+":2", 2)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, w2)))
	heard.silent(t)

	if err := os.Remove(path + "-waiters"); err != nil {
		t.Fatal(err)
	}
	heard.hears(t, "")
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", clientA+":1", 1))))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, w2)))
	heard.hears(t, clientA+":1")
}

// Something else at a pipe's name is neither written to nor deleted.
func TestOtherThingsInTheFolderStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks")
	folder := path + "-waiters"
	target := filepath.Join(t.TempDir(), "target") // a pipe of another program
	fresh := filepath.Join(folder, draftPrefix+"fresh")
	err := errors.Join(os.Mkdir(folder, 0o700), syscall.Mkfifo(target, 0o600),
		os.Symlink(target, filepath.Join(folder, clientA)),
		os.WriteFile(filepath.Join(folder, clientB), nil, 0o600),
		syscall.Mkfifo(filepath.Join(folder, "notes"), 0o600), syscall.Mkfifo(fresh, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := openToRead(target)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	n := open(t, path)
	for _, client := range []string{clientA, clientB} {
		handOver(t, n, n, client, client+":1")
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(client, "", 0)))) // it is not reserved
	}
	listen(t, n, strings.Repeat("c", 32))
	if names := inFolder(t, path); len(names) != 5 {
		t.Errorf("%q are left", names)
	}
	if info, err := os.Stat(filepath.Join(folder, clientB)); err != nil || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
}
