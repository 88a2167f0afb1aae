//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Outside stands in for a test in programs that start servers, as far as this package needs one. A
// failure panics, for Try to return as an error; Close ends what a test's end would. The zero value
// is ready, and safe for concurrent use. With it, and Try around, all methods of a Server may be
// called on any goroutine.
type Outside struct {
	// The interface is nil and carries its unexported method only.
	testing.TB

	mu       sync.Mutex
	cleanups []func()
}

// failure is what a failing Outside panics with.
type failure string

// Helper does nothing.
func (o *Outside) Helper() {}

// Error writes to the standard error stream.
func (o *Outside) Error(args ...any) { fmt.Fprintln(os.Stderr, args...) }

// Errorf writes to the standard error stream.
func (o *Outside) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Fatal panics, see Try.
func (o *Outside) Fatal(args ...any) { panic(failure(fmt.Sprint(args...))) }

// Fatalf panics, see Try.
func (o *Outside) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// Cleanup has f called by Close.
func (o *Outside) Cleanup(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleanups = append(o.cleanups, f)
}

// TempDir makes a folder that Close removes.
func (o *Outside) TempDir() string {
	dir, err := os.MkdirTemp("", "fenlock-")
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Close runs the cleanups, the last one first. A second Close does nothing.
func (o *Outside) Close() {
	for {
		o.mu.Lock()
		if len(o.cleanups) == 0 {
			o.mu.Unlock()
			return
		}
		last := o.cleanups[len(o.cleanups)-1]
		o.cleanups = o.cleanups[:len(o.cleanups)-1]
		o.mu.Unlock()
		last()
	}
}

// Try calls f and returns what fails in it through an Outside as an error.
func Try(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = errors.New(string(p))
		default:
			panic(p)
		}
	}()
	return f()
}
