package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

const (
	// etcdStart bounds the start of a cluster. Five members take 2 s on two cores.
	etcdStart = time.Minute
	// etcdAsk bounds the question which version a program is.
	etcdAsk = 10 * time.Second
)

// etcd starts clusters of etcd servers on this machine. Nil has none, and stop does
// nothing. It is not safe for concurrent use; figures run one after the other.
type etcd struct {
	ctx      context.Context // of the whole bench
	t        testing.TB
	program  string
	version  string
	patience time.Duration // how long a cluster may take to start
	clusters map[int]*etcdCluster
}

// etcdCluster is one that runs.
type etcdCluster struct {
	folder    string
	addresses []string // for clients
	members   []*testserver.Program
}

// errNoEtcd is of a machine without etcd.
var errNoEtcd = errors.New("etcd: no server program found")

// findEtcd looks for the program at path, or on the PATH if that is empty: it
// returns errNoEtcd if there is none. All its clusters end with t.
func findEtcd(ctx context.Context, t testing.TB, path string) (*etcd, error) {
	program, err := exec.LookPath(path)
	if path == "" {
		if program, err = exec.LookPath("etcd"); errors.Is(err, exec.ErrNotFound) {
			return nil, errNoEtcd
		}
	}
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	version, err := etcdVersion(ctx, program)
	if err != nil {
		return nil, err
	}
	for _, v := range os.Environ() { // it would take flags from its environment
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "ETCD_") {
			os.Unsetenv(name)
		}
	}
	e := &etcd{ctx: ctx, t: t, program: program, version: version, patience: etcdStart, clusters: map[int]*etcdCluster{}}
	t.Cleanup(e.stop)
	return e, nil
}

// etcdVersion asks a program which version of etcd it is.
func etcdVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdAsk)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // whatever it starts is ended with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(text)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "etcd Version: "); ok && err == nil {
			return version, nil
		}
	}
	if cause := ctx.Err(); cause != nil {
		err = cause
	}
	if err == nil {
		err = errors.New("no version")
	}
	return "", fmt.Errorf("%s is not etcd: --version: %w; it printed %q", program, err, end(text))
}

// serve returns the addresses of a cluster of n members, each of which serves. It
// starts the cluster unless it runs already.
func (e *etcd) serve(n int) ([]string, error) {
	if c := e.clusters[n]; c != nil {
		return c.addresses, nil
	}
	ctx, cancel := context.WithTimeoutCause(e.ctx, e.patience, fmt.Errorf("not up within %v", e.patience))
	defer cancel()
	for {
		c, err := e.launch(ctx, n)
		if err == nil {
			e.clusters[n] = c
			return c.addresses, nil
		}
		text := c.logs()
		c.stop()
		if ctx.Err() == nil && errors.Is(err, testserver.ErrPortTaken) {
			continue // somebody took a port after it was found free
		}
		return nil, fmt.Errorf("%s, %d members: %w; their logs end with: %s", e.program, n, err, text)
	}
}

// launch starts the members, all at once, since they wait for each other. What was
// started is returned with an error too.
func (e *etcd) launch(ctx context.Context, n int) (*etcdCluster, error) {
	c := &etcdCluster{members: make([]*testserver.Program, n)}
	var err error
	if c.folder, err = os.MkdirTemp("", "fenlock-etcd-"); err != nil {
		return c, err
	}
	var everybody, peers []string
	var ports []int
	for i := range n {
		for len(ports) < 2*(i+1) {
			if port := testserver.FreePort(e.t); !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
		c.addresses = append(c.addresses, fmt.Sprint("127.0.0.1:", ports[2*i]))
		peers = append(peers, fmt.Sprint("http://127.0.0.1:", ports[2*i+1]))
		everybody = append(everybody, fmt.Sprint(i, "=", peers[i]))
	}
	token := rand.Text() // two clusters never take each other for one
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var starting sync.WaitGroup
	var first sync.Once // an error ends the others, and is the one to tell of
	for i, address := range c.addresses {
		starting.Go(func() {
			folder, url := filepath.Join(c.folder, strconv.Itoa(i)), "http://"+address
			problem := os.Mkdir(folder, 0o700)
			if problem == nil {
				c.members[i], problem = testserver.Launch(ctx, e.t, folder, e.program, []string{
					"--name", strconv.Itoa(i), "--data-dir", filepath.Join(folder, "data"),
					"--listen-client-urls", url, "--advertise-client-urls", url,
					"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
					"--initial-cluster", strings.Join(everybody, ","), "--initial-cluster-state", "new",
					"--initial-cluster-token", token, "--unsafe-no-fsync", "--log-level", "error",
				}, func() error { return healthy(ctx, url) })
			}
			if problem != nil {
				first.Do(func() { err = problem; cancel() })
			}
		})
	}
	starting.Wait()
	return c, err
}

// healthy returns nil if a member answers a read that takes a leader and a majority.
func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("a member's health is %s", response.Status)
	}
	return nil
}

// stop ends all clusters. Later ones are new.
func (e *etcd) stop() {
	if e == nil {
		return
	}
	for n, c := range e.clusters {
		c.stop()
		delete(e.clusters, n)
	}
}

// stop kills the members: nobody needs their data.
func (c *etcdCluster) stop() {
	for _, m := range c.members {
		if m != nil {
			m.Kill()
		}
	}
	os.RemoveAll(c.folder)
}

// logs returns the ends of the members' logs.
func (c *etcdCluster) logs() string {
	var all []string
	for _, m := range c.members {
		if m != nil && m.Log() != "" {
			all = append(all, end([]byte(strings.TrimSpace(m.Log()))))
		}
	}
	return strings.Join(all, "\n")
}

// end returns the last part of what a program said.
func end(text []byte) string { return string(text[max(0, len(text)-1000):]) }
