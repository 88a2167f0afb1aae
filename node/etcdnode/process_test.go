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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/etcdnode"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
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
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, TTL: 2 * time.Second, NewServers: true,
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
	if role == "hold" {
		if _, err := l.Acquire(ctx, "child"); err != nil {
			return err
		}
		_, err := l.Acquire(ctx, "behind")
		return err
	}
	role, late := strings.CutPrefix(role, "late ")
	c, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(role, ","), Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	g, err := etcdnode.NewGuard(c)
	if err != nil {
		return err
	}
	if late {
		return writeLate(ctx, l, g)
	}
	for ctx.Err() == nil {
		err := l.Do(ctx, "counter", func(ctx context.Context, token fence.Token) error { return increment(ctx, c, g, token) })
		if err != nil && ctx.Err() == nil {
			fmt.Println("note:", err)
		}
	}
	return nil
}

// writeLate writes when it has lost the lock, as a holder that does not check would.
func writeLate(ctx context.Context, l *fenlock.Locker, g *etcdnode.Guard) error {
	held, err := l.Acquire(ctx, "counter")
	if err != nil {
		return err
	}
	if _, err := g.Do(ctx, counterKey, held.Token(), clientv3.OpPut(counterKey, "in time")); err != nil {
		return err
	}
	fmt.Println("held", held.Token())
	<-held.Context().Done()
	for range 100 { // the members have just been started
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err = g.Do(try, counterKey, held.Token(), clientv3.OpPut(counterKey, "late"))
		cancel()
		if err == nil || errors.Is(err, fence.ErrStale) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Println("late", errors.Is(err, fence.ErrStale))
	return nil
}

// increment adds one to a number in etcd that a guard watches over.
func increment(ctx context.Context, c *clientv3.Client, g *etcdnode.Guard, token fence.Token) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := g.Do(ctx, counterKey, token); err != nil { // shuts out the one before
		return err
	}
	a, err := c.Get(ctx, counterKey)
	if err != nil {
		return err
	}
	var n, last uint64
	if len(a.Kvs) > 0 {
		if _, err := fmt.Sscan(string(a.Kvs[0].Value), &n, &last); err != nil {
			return err
		}
	}
	if uint64(token) <= last {
		fmt.Println("error: token", token, "after", last)
	}
	_, err = g.Do(ctx, counterKey, token, clientv3.OpPut(counterKey, fmt.Sprintf("%d %d", n+1, token)))
	switch {
	case err == nil:
		fmt.Println("done", token)
	case !errors.As(err, new(*fence.StaleError)):
		fmt.Println("maybe", token)
	}
	return err
}

const counterKey = "counter"

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
