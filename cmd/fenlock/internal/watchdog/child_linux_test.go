package watchdog

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// A command that is stopped and continued by others, again and again, has fenlock suspended once,
// until fenlock has it go on.
func TestSuspendedOnce(t *testing.T) {
	told := 0
	c, err := start(&Job{Args: []string{"sleep", "600"}, Env: os.Environ()}, false)
	if err != nil {
		t.Fatal(err)
	}
	c.suspends, c.suspended = true, func() { told++ }
	defer func() {
		syscall.Kill(c.pid, syscall.SIGKILL)
		for _, ended := c.poll(); !ended; _, ended = c.poll() {
			time.Sleep(time.Millisecond)
		}
	}()
	stop := func() {
		t.Helper()
		syscall.Kill(c.pid, syscall.SIGTSTP)
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid))
			if bytes.Contains(stat, []byte(") T ")) {
				break
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("not stopped: %s", stat)
			}
		}
		c.poll()
	}
	for range 3 {
		stop()
		syscall.Kill(c.pid, syscall.SIGCONT)
	}
	if told != 1 {
		t.Errorf("suspended %d times, and not told to go on in between", told)
	}
	c.signal(syscall.SIGCONT)
	if stop(); told != 2 {
		t.Errorf("suspended %d times after it was told to go on once", told)
	}
}
