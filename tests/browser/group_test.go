package browser_test

import (
	"bufio"
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// A lock that is looked at lives through the pauses of a slow machine. A server that has lost
// its memory is out for as long.
const (
	ttl      = 10 * time.Second
	shortTTL = 6 * time.Second // where a test waits until a server votes again
	longTTL  = 30 * time.Second
)

// with has a client use leases of this length, the longest of its group.
func with(ttl time.Duration) func(*fenlock.Config) {
	return func(c *fenlock.Config) { c.TTL, c.MaxTTL, c.NodeTimeout = ttl, ttl, ttl/4 }
}

// newGroup starts n servers that are admitted already.
func newGroup(t *testing.T, n int, maxTTL time.Duration) []*testserver.Server {
	t.Helper()
	servers := testserver.Group(t, testserver.Kinds(t)[0], n)
	for _, s := range servers {
		s.MarkAdmitted(valkeynode.DefaultPrefix, maxTTL)
	}
	return servers
}

// newLocker returns a client of its own, of a person or a program with this label.
func newLocker(t *testing.T, servers []*testserver.Server, label string,
	change ...func(*fenlock.Config)) *fenlock.Locker {
	t.Helper()
	config := fenlock.Config{Label: label}
	with(ttl)(&config)
	for _, f := range change {
		f(&config)
	}
	for _, s := range servers {
		node, err := valkeynode.Open(s.URL())
		must(t, err)
		config.Nodes = append(config.Nodes, node)
	}
	l, err := fenlock.New(config)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func acquire(t *testing.T, l *fenlock.Locker, name string) *fenlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	lock, err := l.Acquire(ctx, name)
	must(t, err)
	return lock
}

func release(t *testing.T, lock *fenlock.Lock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := lock.Release(ctx); err != nil {
		t.Error(err)
	}
}

// wait has a client wait for a lock until the test ends, and hold it then. The lock is released
// when that is called for.
func wait(t *testing.T, l *fenlock.Locker, name string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		lock, err := l.Acquire(ctx, name)
		if err == nil {
			select {
			case <-end:
				err = lock.Release(ctx)
			case <-ctx.Done():
			}
		}
		ended <- err
	}()
	var once sync.Once
	t.Cleanup(func() {
		cancel()
		once.Do(func() { <-ended })
	})
	return func() {
		once.Do(func() {
			close(end)
			if err := <-ended; err != nil {
				t.Errorf("who waited for %s: %v", name, err)
			}
		})
	}
}

// served is a running "fenlock ui".
type served struct {
	t      *testing.T
	url    string
	at     *url.URL // the same
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  bool
}

// serve starts "fenlock ui" for a group, on a free port unless a flag says otherwise. It
// ends with the test as Ctrl-C ends it.
func serve(t *testing.T, servers []*testserver.Server, flags ...string) *served {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	s := &served{t: t, cmd: exec.Command(command, append([]string{"ui", "--listen", "127.0.0.1:0"}, flags...)...)}
	s.cmd.Env = append(os.Environ(), "FENLOCK_NODES="+strings.Join(urls, ","))
	s.cmd.Stderr = &s.stderr
	output, err := s.cmd.StdoutPipe()
	must(t, err)
	must(t, s.cmd.Start())
	t.Cleanup(func() { s.end(syscall.SIGINT) })
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		s.end(syscall.SIGKILL)
		t.Fatalf("no address: %v\n%s", err, s.stderr.String())
	}
	s.url = strings.TrimSpace(line)
	s.at, err = url.Parse(s.url)
	must(t, err)
	return s
}

// end ends it by a signal, if that was not done before.
func (s *served) end(signal syscall.Signal) {
	s.t.Helper()
	if s.ended {
		return
	}
	s.ended = true
	s.cmd.Process.Signal(signal)
	if err := s.cmd.Wait(); err != nil && signal != syscall.SIGKILL {
		s.t.Errorf("fenlock ui: %v\n%s", err, s.stderr.String())
	}
}
