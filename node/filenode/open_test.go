//go:build linux || darwin || freebsd

package filenode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A process that is stopped while it makes the file holds up another one as long as that wants to
// wait. What the other call had begun to open is closed in the end.
func TestOpeningEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks")
	stopped, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	has := locks{fd: int(stopped.Fd())}
	if err := has.lock(headerByte); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = OpenContext(ctx, "file://"+path)
	problem(t, err, path, "open")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stopped?") {
		t.Errorf("%v", err)
	}
	has.unlock(headerByte)
	n, err := OpenFileContext(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
	// A node that is open keeps others from beginning the file anew.
	for again := (locks{fd: int(stopped.Fd())}); ; time.Sleep(time.Millisecond) {
		if alone, err := again.alone(); err != nil {
			t.Fatal(err)
		} else if alone {
			break
		}
	}
}

// Only where another process has the file locked is that said.
func TestTooShortToOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks")
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	_, err := OpenContext(ctx, "file://"+path)
	problem(t, err, path, "open")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "too short") ||
		strings.Contains(err.Error(), "stopped?") {
		t.Errorf("%v", err)
	}
}
