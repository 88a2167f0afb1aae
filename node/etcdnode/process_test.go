//go:build unix

package etcdnode_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/etcdnode"
)

// This binary is also the program of the process that locks.
const childURL = "ETCDNODE_TEST_URL"

func init() {
	if url := os.Getenv(childURL); url != "" {
		fmt.Println("error:", childMain(url))
		os.Exit(1)
	}
}

// childMain holds one lock, and waits for another. It ends with its standard input.
func childMain(url string) error {
	n, err := etcdnode.Open(url)
	if err != nil {
		return err
	}
	defer n.Close()
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, TTL: 2 * time.Second, MaxTTL: longest, NewServers: true,
		NodeTimeout: 500 * time.Millisecond})
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
	if _, err := l.Acquire(ctx, "child"); err != nil {
		return err
	}
	_, err = l.Acquire(ctx, "behind")
	return err
}

// child starts the process, and returns how to kill it.
func child(t *testing.T, url string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childURL+"="+url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return func() { cmd.Process.Kill() }
}
