package filenode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// withDescriptors runs f where only so many more can be opened.
func withDescriptors(t *testing.T, more int, f func()) {
	t.Helper()
	var before syscall.Rlimit
	free, err := syscall.Dup(0)
	if err := errors.Join(err, syscall.Close(free), syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = uint64(free + more)
	err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few)
	f()
	if err := errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
}

// A new file is not used before its name is on the disk, for which its folder is opened. Otherwise
// there could be another file after a power failure, whose tokens start again.
func TestFolderIsSyncedFirst(t *testing.T) {
	newNode(t) // the runtime takes a descriptor of its own for the first file
	path := filepath.Join(t.TempDir(), "locks")
	var err error
	withDescriptors(t, 1, func() { _, err = inBoot(t, path, "a boot", func() time.Duration { return time.Hour }) })
	if problem(t, err, path, filepath.Dir(path)+": too many open files"); !errors.Is(err, syscall.EMFILE) {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 0 {
		t.Errorf("%v, %v", info, err)
	}
	open(t, path)
}

// A file is refused where another machine may have it too.
func TestNetworkFileSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks")
	var s syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &s); err != nil {
		t.Fatal(err)
	}
	number := int64(uint32(s.Type))
	defer func(was string, known bool) {
		if delete(kinds, number); known {
			kinds[number] = was
		}
	}(kinds[number], kinds[number] != "")
	for kind := range network {
		kinds[number] = kind
		_, err := OpenFile(path)
		problem(t, err, path, "network file system ("+kind+")", "use a file on a disk of this machine")
		if !errors.Is(err, node.ErrMisconfigured) {
			t.Error(err)
		}
	}
	// What may be this machine's own is found by fenlock doctor.
	kinds[number] = "fuse"
	e, err := open(t, path).Examine(t.Context(), node.Look{})
	if err != nil || !strings.Contains(fmt.Sprint(e.Findings), "(fuse)") {
		t.Errorf("%+v, %v", e, err)
	}
}

// Without a descriptor nothing can be told, which says nothing about the waiters: those that are
// not the next stay in the queue.
func TestNoDescriptorsLeft(t *testing.T) {
	n, _ := newNode(t)
	listen(t, n, clientA)
	held := request("a", "", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	for i := range 3 {
		want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", fmt.Sprint(clientA, ":", i+1), int64(i+1)))))
	}
	var answer node.Answer
	var err error
	withDescriptors(t, 0, func() { answer, err = n.Do(t.Context(), as(node.Release, held)) })
	if err != nil || answer.Status != node.Granted {
		t.Fatalf("%v, %v", answer.Status, err)
	}
	if left := inFile(t, n, "a").Queues["a"].Waiters; len(left) != 2 {
		t.Errorf("%v are left in the queue", left)
	}
}
