package zknode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// workerVariable makes the test binary a process that counts under a lock: it has the URL.
const workerVariable = "ZKNODE_TEST_WORKER"

const workerTTL = 3 * time.Second

// worker adds to the number in a file, under the lock. For each addition it prints a line with the
// token and the new number. A line from its standard input ends it; the word hold has it keep the
// lock until it is killed.
func worker(url, file string) error {
	n, err := Open(url)
	if err != nil {
		return err
	}
	locker, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}, TTL: workerTTL, MaxTTL: workerTTL, NewServers: true,
		NodeTimeout: 700 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	lines := make(chan string, 10)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
		lines <- "end"
	}()
	for {
		word := ""
		select {
		case word = <-lines:
		default:
		}
		if word == "end" {
			return locker.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), hanging)
		lock, err := locker.Acquire(ctx, "counter")
		cancel()
		if err != nil {
			return err
		}
		if word == "hold" {
			fmt.Println("holds")
			select {}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(string(text))
		if err != nil {
			return err
		}
		time.Sleep(3 * time.Millisecond)
		if lock.Context().Err() != nil {
			continue // lost: nothing is written
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(count+1)), 0o600); err != nil {
			return err
		}
		fmt.Println(lock.Token(), count+1)
		lock.Release(context.Background())
	}
}

// crew are the workers of a test.
type crew struct {
	t    *testing.T
	mu   sync.Mutex
	held chan struct{} // a worker holds, and will not let go
	seen map[int]fence.Token
}

type member struct {
	*exec.Cmd
	in *os.File
}

func (c *crew) start(url, file string) member {
	c.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVariable+"="+url, workerVariable+"_FILE="+file)
	cmd.Stdin, cmd.Stderr = r, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	r.Close()
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.take(lines.Text())
		}
	}()
	return member{cmd, w}
}

func (c *crew) take(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line == "holds" {
		close(c.held)
		return
	}
	var token fence.Token
	var count int
	if _, err := fmt.Sscan(line, &token, &count); err != nil {
		c.t.Errorf("a worker says %q", line)
		return
	}
	if _, twice := c.seen[count]; twice {
		c.t.Errorf("%d was counted twice: an increment was lost", count)
	}
	c.seen[count] = token
}

// counted waits until so many more have been counted.
func (c *crew) counted(more int) {
	c.t.Helper()
	c.mu.Lock()
	goal := len(c.seen) + more
	c.mu.Unlock()
	for deadline := time.Now().Add(hanging); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		c.mu.Lock()
		now := len(c.seen)
		c.mu.Unlock()
		if now >= goal {
			return
		}
	}
	c.t.Fatalf("not %d more within %v", more, hanging)
}

// lockers has processes count with the shipped Locker, while one that holds the lock is
// killed, and a server.
func (e *proxied) lockers(t *testing.T) {
	e.settled()
	file := filepath.Join(t.TempDir(), "counter")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &crew{t: t, held: make(chan struct{}), seen: make(map[int]fence.Token)}
	url := e.url(6, "lockers")
	var all []member
	for range 4 {
		all = append(all, c.start(url, file))
	}
	c.counted(40)
	victim := all[0]
	fmt.Fprintln(victim.in, "hold")
	select {
	case <-c.held:
	case <-time.After(hanging):
		t.Fatal("nobody holds")
	}
	victim.Process.Kill()
	victim.Wait()
	c.counted(40)
	leader := e.Leader(t)
	leader.Kill()
	c.counted(40)
	if err := leader.Begin(); err != nil {
		t.Fatal(err)
	}
	c.counted(20)
	for _, one := range all[1:] {
		fmt.Fprintln(one.in, "end")
	}
	for _, one := range all[1:] {
		var exit *exec.ExitError
		if err := one.Wait(); errors.As(err, &exit) {
			t.Errorf("a worker ended with %v", err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if total := strings.TrimSpace(string(text)); total != strconv.Itoa(len(c.seen)) {
		t.Errorf("the file has %s, and %d were counted", total, len(c.seen))
	}
	for i := 2; i <= len(c.seen); i++ {
		if c.seen[i] <= c.seen[i-1] {
			t.Errorf("token %d at %d, and %d at %d", c.seen[i-1], i-1, c.seen[i], i)
		}
	}
}
