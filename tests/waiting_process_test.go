package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// startRun starts "fenlock run" as a process of its own. Its command writes who
// it is into a log when it begins, says "begun", waits for a line, and writes
// when it ends.
func startRun(t *testing.T, fenlock string, servers []*testserver.Server, who, log string) *client {
	t.Helper()
	arguments := []string{"run", "--quiet", "--ttl", longTTL.String(), "--max-ttl", longTTL.String(), "--wait", "10m"}
	for _, s := range servers {
		arguments = append(arguments, "--node", s.URL())
	}
	arguments = append(arguments, "orders", "--", "sh", "-c",
		`echo "$0 begins" >>"$1"; echo begun; read line; echo "$0 ends" >>"$1"`, who, log)
	cmd := exec.Command(fenlock, arguments...)
	input, output := startProcess(t, cmd)
	return &client{t: t, cmd: cmd, input: input, output: output}
}

// begun waits until the command of a process runs.
func (c *client) begun() {
	c.t.Helper()
	if line := c.line(); line != "begun" {
		c.t.Fatalf("%q, want begun", line)
	}
}

// finish lets the command end, and waits for the process.
func (c *client) finish() {
	c.t.Helper()
	c.goOn()
	for c.output.Scan() {
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Error(err)
	}
}

func checkLog(t *testing.T, log string, want ...string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSpace(string(text)), "\n"); !slices.Equal(got, want) {
		t.Errorf("log %q, want %q", got, want)
	}
}

// The first in the queue is dead and the second is stopped: the third gets the lock.
// The second gets it later, when it goes on.
func TestProcessesInQueue(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		allowLong(servers)
		fenlock := testserver.Fenlock(t)
		log := filepath.Join(t.TempDir(), "log")
		holder := startRun(t, fenlock, servers, "holder", log)
		holder.begun()
		var waiters []*client
		for i, who := range []string{"first", "second", "third"} {
			waiters = append(waiters, startRun(t, fenlock, servers, who, log))
			awaitQueue(t, servers, lineOf("orders"), i+1)
		}
		first, second, third := waiters[0], waiters[1], waiters[2]
		first.signal(syscall.SIGKILL)
		first.cmd.Wait()
		second.stop()
		holder.finish()
		third.begun()
		second.signal(syscall.SIGCONT)
		// It is in the queue again, though it was called and is late.
		awaitQueue(t, servers, lineOf("orders"), 1)
		third.finish()
		second.begun()
		second.finish()
		checkLog(t, log, "holder begins", "holder ends", "third begins", "third ends", "second begins", "second ends")
		nothingLeft(t, servers)
	})
}
