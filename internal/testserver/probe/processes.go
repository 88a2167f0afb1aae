package probe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Children counts the processes of this program that this one has started.
func Children(t *testing.T) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent ...", and the name may hold anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		program, err := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		if err == nil && fields[1] == strconv.Itoa(os.Getpid()) && program == self {
			n++
		}
	}
	return n
}

// Stops waits until a process that was sent SIGSTOP has stopped, and reports whether it has. The
// signal is delivered later than it is sent, and a process on the other core may still answer.
func Stops(pid int) bool {
	for range 400 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil { // not Linux
			time.Sleep(20 * time.Millisecond)
			return true
		}
		// "pid (name) state ...", and the name may hold anything.
		if _, state, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " "); state[0] == 'T' ||
			state[0] == 'Z' {
			return state[0] == 'T'
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}
