package command

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// However the demo ends, what it has started ends, and its folder is gone: also a client
// that it has stopped.
func TestDemoLeavesNothing(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			folder := t.TempDir()
			cmd := exec.CommandContext(ctx, program, "demo", "paused")
			cmd.Env = append(os.Environ(), "TMPDIR="+folder)
			// All that it starts is in its session.
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			must(t, err)
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), "stops client 1") {
			}
			// The demo, two clients and the keeper, at least.
			if started := sessionOf(t, cmd.Process.Pid); len(started) < 4 {
				t.Errorf("it has started %q", started)
			}
			cmd.Process.Signal(sig)
			go func() {
				for lines.Scan() {
				}
			}()
			cmd.Wait()
			want := exitSignal + int(sig)
			if sig == syscall.SIGKILL {
				want = -1
			}
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("exit status %d, want %d", got, want)
			}
			for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
				left := sessionOf(t, cmd.Process.Pid)
				files, err := os.ReadDir(folder)
				if err == nil && len(left)+len(files) == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("this is left: %q, %v, %v", left, files, err)
				}
			}
		})
	}
}

// sessionOf returns the names of the processes of a session.
func sessionOf(t *testing.T, leader int) (names []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent group session ...", and the name may hold anything.
		end := strings.LastIndexByte(string(text), ')')
		fields := strings.Fields(string(text)[end+1:])
		if fields[3] == fmt.Sprint(leader) && fields[0] != "Z" {
			names = append(names, string(text)[:end+1])
		}
	}
	return names
}
