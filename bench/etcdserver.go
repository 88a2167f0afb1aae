package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
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
	program  string
	version  string
	patience time.Duration // how long a cluster may take to start
	clusters map[int]*etcdCluster
}

// etcdCluster is one that runs.
type etcdCluster struct {
	folder  string
	members []*etcdMember
}

// etcdMember is one process.
type etcdMember struct {
	client, peer string // addresses
	log          string // a path
	process      *os.Process
	done         chan struct{} // closed when it is gone
	err          error         // how it went; read after done
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
	e := &etcd{ctx: ctx, program: program, version: version, patience: etcdStart, clusters: map[int]*etcdCluster{}}
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
		return c.addresses(), nil
	}
	ctx, cancel := context.WithTimeoutCause(e.ctx, e.patience, fmt.Errorf("not up within %v", e.patience))
	defer cancel()
	for {
		c, err := e.launch(n)
		if err == nil {
			err = c.serves(ctx)
		}
		if err == nil {
			e.clusters[n] = c
			return c.addresses(), nil
		}
		text := c.logs()
		c.stop()
		if ctx.Err() == nil && strings.Contains(text, "address already in use") {
			continue // somebody took a port after it was found free
		}
		return nil, fmt.Errorf("%s, %d members: %w; their logs end with: %s", e.program, n, err, text)
	}
}

// launch starts the processes. What was started is returned with an error too.
func (e *etcd) launch(n int) (*etcdCluster, error) {
	c := &etcdCluster{}
	var err error
	if c.folder, err = os.MkdirTemp("", "fenlock-etcd-"); err != nil {
		return c, err
	}
	ports, err := freePorts(2 * n)
	if err != nil {
		return c, err
	}
	var everybody []string
	for i := range n {
		m := &etcdMember{client: ports[2*i], peer: ports[2*i+1], log: filepath.Join(c.folder, fmt.Sprint(i, ".log"))}
		c.members = append(c.members, m)
		everybody = append(everybody, fmt.Sprintf("%d=http://%s", i, m.peer))
	}
	token := rand.Text() // two clusters never take each other for one
	for i, m := range c.members {
		if err := m.launch(e.program,
			"--name", strconv.Itoa(i), "--data-dir", filepath.Join(c.folder, strconv.Itoa(i)),
			"--listen-client-urls", "http://"+m.client, "--advertise-client-urls", "http://"+m.client,
			"--listen-peer-urls", "http://"+m.peer, "--initial-advertise-peer-urls", "http://"+m.peer,
			"--initial-cluster", strings.Join(everybody, ","), "--initial-cluster-state", "new", "--initial-cluster-token", token,
			"--unsafe-no-fsync", "--log-level", "error"); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (m *etcdMember) launch(program string, args ...string) error {
	log, err := os.Create(m.log)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Dir(m.log), log, log
	// It would take flags from its environment.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ETCD_") })
	// In a group of its own, Ctrl-C does not reach it: the bench ends first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	m.process, m.done = cmd.Process, make(chan struct{})
	dismiss, err := watch(cmd.Process.Pid)
	go func() {
		m.err = cmd.Wait()
		dismiss()
		close(m.done)
	}()
	return err
}

// watch starts a shell that kills a process group when this program ends without
// having called dismiss, however it ends: the shell sees that its input ends.
func watch(group int) (dismiss func(), err error) {
	cmd := exec.Command("sh", "-c", `read -r line && exit; kill -s KILL -- "-$1"`, "fenlock-bench-watch", strconv.Itoa(group))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return func() {}, err
	}
	return func() {
		io.WriteString(pipe, "done\n")
		cmd.Wait()
	}, nil
}

// serves waits until every member answers a read that takes a leader and a majority.
func (c *etcdCluster) serves(ctx context.Context) error {
	for _, m := range c.members {
		for last := errors.New("nothing asked yet"); ; {
			err := m.healthy(ctx)
			select {
			case <-m.done: // if another program answered, this one had no port
				return fmt.Errorf("a member ended: %v", m.err)
			default:
			}
			if err == nil {
				break
			}
			if ctx.Err() != nil || sleep(ctx, 20*time.Millisecond) != nil {
				return fmt.Errorf("%w: %v", context.Cause(ctx), last)
			}
			last = err
		}
	}
	return nil
}

func (m *etcdMember) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.client+"/health", nil)
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

func (c *etcdCluster) addresses() []string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.client)
	}
	return all
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
		if m.process != nil {
			syscall.Kill(-m.process.Pid, syscall.SIGKILL)
		}
	}
	for _, m := range c.members {
		if m.process != nil {
			<-m.done
		}
	}
	os.RemoveAll(c.folder)
}

// logs returns the ends of the members' logs.
func (c *etcdCluster) logs() string {
	var all []string
	for _, m := range c.members {
		text, _ := os.ReadFile(m.log)
		if text = bytes.TrimSpace(text); len(text) > 0 {
			all = append(all, end(text))
		}
	}
	return strings.Join(all, "\n")
}

// end returns the last part of what a program said.
func end(text []byte) string { return string(text[max(0, len(text)-1000):]) }

// freePorts returns loopback addresses that nobody listens on at the moment. They
// are below the range that outgoing connections take theirs from.
func freePorts(n int) ([]string, error) {
	var all []string
	for range 100 * n {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+mathrand.IntN(12000)))
		listener, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer listener.Close() // at the end, so that no address comes twice
		if all = append(all, address); len(all) == n {
			return all, nil
		}
	}
	return nil, fmt.Errorf("not %d free ports between 20000 and 32000", n)
}
