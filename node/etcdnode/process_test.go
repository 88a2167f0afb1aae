//go:build unix

package etcdnode_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/etcdnode"
)

// This binary is also the program of the processes that lock.
const childURL, childRole = "ETCDNODE_TEST_URL", "ETCDNODE_TEST_ROLE"

func init() {
	if url := os.Getenv(childURL); url != "" {
		if err := childMain(url, os.Getenv(childRole)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// childMain locks. It ends with its standard input.
func childMain(url, role string) error {
	n, err := etcdnode.Open(url)
	if err != nil {
		return err
	}
	defer n.Close()
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, TTL: 2 * time.Second, NewServers: true, NodeTimeout: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
		time.Sleep(20 * time.Second)
		os.Exit(2)
	}()
	if role == "hold" {
		if _, err := l.Acquire(ctx, "child"); err != nil {
			return err
		}
		_, err := l.Acquire(ctx, "behind")
		return err
	}
	for ctx.Err() == nil { // count in the file
		err := l.Do(ctx, "counter", func(ctx context.Context, token fence.Token) error { return increment(ctx, role, uint64(token)) })
		if err != nil && ctx.Err() == nil {
			fmt.Println("note:", err)
		}
	}
	return nil
}

// increment adds one to the number in a file, and writes the token beside it. It takes
// its time, as long as the lock is held.
func increment(ctx context.Context, file string, token uint64) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	count, last, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, err := strconv.ParseUint(count, 10, 64)
	if err != nil {
		return err
	}
	newest, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		return err
	}
	if token <= newest {
		fmt.Println("error: token", token, "after", newest)
	}
	time.Sleep(time.Millisecond)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = os.WriteFile(file, fmt.Appendf(nil, "%d %d\n", n+1, token), 0o600)
	if err == nil {
		fmt.Println("done", token)
	}
	return err
}

// start starts a process, and returns how to kill it and the lines that it prints.
func start(t *testing.T, url, role string) (cmd *exec.Cmd, lines <-chan string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childURL+"="+url, childRole+"="+role)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := make(chan string, 1<<16)
	go func() {
		defer close(printed)
		for s := bufio.NewScanner(out); s.Scan(); {
			printed <- s.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, printed
}

func child(t *testing.T, url string) (*exec.Cmd, func()) {
	cmd, _ := start(t, url, "hold")
	return cmd, func() { cmd.Process.Kill() }
}

var _ = errors.Is
