//go:build linux

package wallclock

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

//go:embed preload/wallclock.c
var source []byte

// Build compiles the library that processes are to preload, and returns its path.
// It takes a C compiler. The library is gone when the test ends.
func Build(t testing.TB) string {
	t.Helper()
	dir := readable(t)
	path, library := filepath.Join(dir, "wallclock.c"), filepath.Join(dir, "wallclock.so")
	if err := os.WriteFile(path, source, 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command("cc", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o", library,
		path).CombinedOutput()
	if err != nil {
		t.Fatalf("compiling wallclock.c, which takes a C compiler (Debian: apt-get install gcc libc6-dev): %v\n%s", err,
			output)
	}
	return library
}

// readable makes a folder for servers that run as another user.
func readable(t testing.TB) string {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Clock is the wall clock of the processes that run with its environment, one
// after the other or at once. Safe for concurrent use.
type Clock struct {
	Environment []string
	library     string
	offset      *int64 // ns, in a file that the processes map
	steps       atomic.Int64
}

// New returns a clock that is right, moved by a library of Build.
func New(t testing.TB, library string) *Clock {
	t.Helper()
	path := filepath.Join(readable(t), "offset")
	if err := os.WriteFile(path, make([]byte, 8), 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, err := syscall.Mmap(int(file.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(fmt.Errorf("mapping %s: %w", path, err))
	}
	// It stays mapped until the program ends: a fault may step the clock of a
	// process that is gone.
	return &Clock{
		Environment: []string{"LD_PRELOAD=" + library, "FENLOCK_WALLCLOCK=" + path},
		library:     library,
		offset:      (*int64)(unsafe.Pointer(unsafe.SliceData(memory))),
	}
}

// Step moves the clock. Steps add up, so that several faults may step and undo.
func (c *Clock) Step(d time.Duration) {
	c.steps.Add(1)
	atomic.AddInt64(c.offset, int64(d))
}

// Steps returns how many there were, undone or not.
func (c *Clock) Steps() int64 { return c.steps.Load() }

// Off returns how far the clock is from the true one.
func (c *Clock) Off() time.Duration { return time.Duration(atomic.LoadInt64(c.offset)) }

// Check returns an error if a process was started without the library that moves
// its clock: every step would be none.
func (c *Clock) Check(pid int) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err == nil && !strings.Contains(string(maps), c.library) {
		err = fmt.Errorf("process %d has not loaded %s", pid, c.library)
	}
	return err
}
