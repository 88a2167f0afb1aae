package engines

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// Four processes at a time add lines to a file under "fenlock run", while clients are killed and
// stopped, and servers as well. Each line says how many there were before it, and the token. Two
// holders at a time would count the same lines twice; a write after the lock was lost would have an
// old token.
func TestCounter(t *testing.T) { counts(t, 12, 2, false) }

// counts goes on for so many lines, until each disturbance was made, or so many of them.
func counts(t *testing.T, enough, disturbances int, campaign bool) {
	fenlock := testserver.Fenlock(t)
	for _, e := range all {
		if e.campaign && !campaign {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			c := &counter{t: t, enough: enough, fenlock: fenlock, scene: e.start(t, fenlock),
				log: filepath.Join(t.TempDir(), "log"), running: map[int]bool{}}
			c.scene.disturb = c.scene.disturb[:min(disturbances, len(c.scene.disturb))]
			c.run()
		})
	}
}

const (
	processes = 4
	patience  = 10 * time.Minute // for hangs
)

// counter is one run of the scenario.
type counter struct {
	t       *testing.T
	enough  int // lines
	fenlock string
	scene   scene
	log     string

	mu      sync.Mutex
	running map[int]bool // process ids of fenlocks
	ended   bool
}

func (c *counter) run() {
	t := c.t
	if err := os.WriteFile(c.log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"run", "-q", "--ttl", c.scene.ttl.String(), "--max-ttl", c.scene.ttl.String(), "--wait",
		patience.String()}
	for _, url := range c.scene.urls {
		arguments = append(arguments, "--node", url)
	}
	arguments = append(arguments, "counter", "--", "sh", "-c",
		`n=$(wc -l <"$0"); sleep 0.05; echo "$FENLOCK_TOKEN $n" >>"$0"`, c.log)
	var wait sync.WaitGroup
	for range processes {
		wait.Go(func() {
			// To start a command again and again, while the machine has no time for it, keeps all
			// from a lock.
			for pause := 50 * time.Millisecond; !c.over(); {
				if c.one(arguments) {
					pause = 50 * time.Millisecond
					continue
				}
				time.Sleep(pause)
				pause = min(2*pause, 3*time.Second)
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	killed, stopped, disturbed := 0, 0, 0
	for turn, end := 0, time.Now().Add(patience); ; turn++ {
		done := c.lines()
		if done >= c.enough && killed > 0 && stopped > 0 && disturbed >= len(c.scene.disturb) {
			break
		}
		if time.Now().After(end) {
			t.Errorf("after %v: %d lines, %d killed, %d stopped, %d disturbances", patience, done, killed, stopped, disturbed)
			c.explain()
			break
		}
		// Something is written between two disturbances, or they prove little.
		for c.lines() < done+4 && time.Now().Before(end) {
			time.Sleep(10 * time.Millisecond)
		}
		switch turn % 3 {
		case 0:
			if pid := c.any(random); pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		case 1:
			if pid := c.any(random); pid != 0 && syscall.Kill(pid, syscall.SIGSTOP) == nil {
				stopped++
				time.AfterFunc(c.scene.ttl*3/2, func() { syscall.Kill(pid, syscall.SIGCONT) })
			}
		case 2:
			if disturbed < len(c.scene.disturb) {
				c.scene.disturb[disturbed](c.progress)
				disturbed++
			}
		}
	}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	wait.Wait()
	c.check()
	t.Logf("%d lines, %d clients killed, %d stopped, %d times servers", c.lines(), killed, stopped, disturbed)
}

// progress returns when more has been written: the lock can be taken.
func (c *counter) progress() {
	c.t.Helper()
	done := c.lines()
	for end := time.Now().Add(patience / 2); c.lines() < done+3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Error("nothing is written, although a quorum is left")
			c.explain()
			return
		}
	}
}

// explain tells what there is to know of a hang: the nodes, what is busy, and where the clients
// are.
func (c *counter) explain() {
	arguments := []string{"nodes", "--json"}
	for _, url := range c.scene.urls {
		arguments = append(arguments, "--node", url)
	}
	nodes, _ := exec.Command(c.fenlock, arguments...).CombinedOutput()
	busy, _ := exec.Command("sh", "-c",
		"ps -eo pid,ppid,pcpu,etimes,args --sort=-pcpu | head -40 | cut -c1-200").CombinedOutput()
	c.t.Logf("%s\n%s", nodes, busy)
	c.mu.Lock()
	defer c.mu.Unlock()
	for pid := range c.running {
		syscall.Kill(pid, syscall.SIGABRT) // one logs the stacks
	}
}

func (c *counter) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// one runs a command once, and returns whether it succeeded. That it fails is expected: it was
// killed, lost its lock, or found no server.
func (c *counter) one(arguments []string) bool {
	cmd := exec.Command(c.fenlock, arguments...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		return false
	}
	c.mu.Lock()
	c.running[cmd.Process.Pid] = true
	c.mu.Unlock()
	err := cmd.Wait()
	c.mu.Lock()
	delete(c.running, cmd.Process.Pid)
	c.mu.Unlock()
	if bytes.Contains(stderr.Bytes(), []byte("SIGABRT")) {
		c.t.Logf("%s", stderr.Bytes())
	}
	if code := cmd.ProcessState.ExitCode(); err != nil && (code == 64 || bytes.Contains(stderr.Bytes(), []byte("panic"))) {
		c.t.Errorf("exit status %d: %s", code, stderr.Bytes())
	}
	return err == nil
}

// any returns the process id of one of the fenlocks that run.
func (c *counter) any(random *rand.Rand) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	skip := random.IntN(len(c.running) + 1)
	for pid := range c.running {
		if skip--; skip <= 0 {
			return pid
		}
	}
	return 0
}

func (c *counter) lines() int {
	text, err := os.ReadFile(c.log)
	if err != nil {
		c.t.Error(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// check fails the test if lines were lost, or tokens do not grow.
func (c *counter) check() {
	text, err := os.ReadFile(c.log)
	if err != nil {
		c.t.Fatal(err)
	}
	last := 0
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		var token, n int
		if _, err := fmt.Sscan(line, &token, &n); err != nil || n != i || token <= last {
			c.t.Errorf("line %d is %q, after the token %d (%v)", i, line, last, err)
		}
		last = token
	}
}
