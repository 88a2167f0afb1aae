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
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range ChildrenOf(os.Getpid()) {
		if program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && program == self {
			n++
		}
	}
	return n
}

// ChildrenOf returns the children of a process, on Linux; of 0 there are none.
func ChildrenOf(of int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil || of == 0 {
			continue // it has ended
		}
		// "pid (name) state parent ...", and the name may hold anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && fields[1] == strconv.Itoa(of) {
			pids = append(pids, pid)
		}
	}
	return pids
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
