//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

//go:embed preload/wallclock.c
var wallclockSource []byte

// buildWallclock compiles the library that servers are to preload.
func buildWallclock(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	source, library := filepath.Join(dir, "wallclock.c"), filepath.Join(dir, "wallclock.so")
	if err := os.WriteFile(source, wallclockSource, 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command("cc", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	if err != nil {
		t.Fatalf("compiling wallclock.c, which takes a C compiler (Debian: apt-get install gcc libc6-dev): %v\n%s", err, output)
	}
	return library
}

// wallclock is the wall clock of the servers that run with its environment, one
// after the other or at once. Safe for concurrent use.
type wallclock struct {
	environment []string
	library     string
	offset      *int64 // ns, in a file that the servers map
	stepped     atomic.Int64
}

func newWallclock(t testing.TB, library string) *wallclock {
	t.Helper()
	path := filepath.Join(t.TempDir(), "offset")
	if err := os.WriteFile(path, make([]byte, 8), 0o600); err != nil {
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
	// server that is gone.
	return &wallclock{
		environment: []string{"LD_PRELOAD=" + library, "FENLOCK_WALLCLOCK=" + path},
		library:     library,
		offset:      (*int64)(unsafe.Pointer(unsafe.SliceData(memory))),
	}
}

// step moves the clock. Steps add up, so that several faults may step and undo.
func (w *wallclock) step(d time.Duration) {
	w.stepped.Add(1)
	atomic.AddInt64(w.offset, int64(d))
}

// steps returns how often it was moved.
func (w *wallclock) steps() int64 { return w.stepped.Load() }

// off returns how far the clock is from the true one.
func (w *wallclock) off() time.Duration { return time.Duration(atomic.LoadInt64(w.offset)) }
