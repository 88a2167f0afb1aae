//go:build linux || darwin || freebsd

package processes

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A start that stands still in the kernel, and keeps its processor, does not hold others up.
func TestAside(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	// Where the goroutine below does not run, this ends the test.
	rescue := exec.Command("sh", "-c", "sleep 30; echo r")
	rescue.Stdout = w
	must(t, rescue.Start())
	defer func() {
		rescue.Process.Kill()
		rescue.Wait()
	}()
	fd, from := r.Fd(), make([]byte, 1)
	err = Aside(func() error {
		go w.WriteString("g")
		if _, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&from[0])), 1); errno != 0 {
			return errno
		}
		return nil
	})
	if err != nil || from[0] != 'g' {
		t.Errorf("%q, %v: the other goroutine did not run", from, err)
	}
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("%d processors afterwards", n)
	}
}
