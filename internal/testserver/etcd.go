//go:build unix

package testserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// etcdServer and etcdUtility are etcd's programs, and etcdTimeout bounds the build of one.
const (
	etcdServer  = "go.etcd.io/etcd/server/v3"
	etcdUtility = "go.etcd.io/etcd/etcdutl/v3"
	etcdTimeout = 10 * time.Minute
	etcdStart   = 2 * time.Minute
)

var etcdProgram = sync.OnceValues(func() (string, error) { return etcdTool(etcdServer) })

func etcdTool(name string) (string, error) { return tool("etcd", name) }

// tool builds a program of a module in the folder tools, the first time in a minute or so, and
// later not at all. The path is in Go's build cache.
func tool(module, name string) (string, error) {
	_, here, _, _ := runtime.Caller(0)
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", name)
	cmd.Dir = filepath.Join(filepath.Dir(here), "..", "..", "tools", module)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var problem strings.Builder
	cmd.Stderr = &problem
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go tool -n %s: %w\n%s", name, err, problem.String())
	}
	return strings.TrimSpace(string(path)), nil
}

// Etcd is an etcd cluster, bound to the test that started it.
type Etcd struct {
	t       testing.TB
	Members []*EtcdMember
}

// EtcdMember is one member of an Etcd. After Kill or Stop it can be started again.
type EtcdMember struct {
	process
	args    []string
	metrics string // the URL at which it tells its health
}

// StartEtcd starts a cluster of n members on free loopback ports, with more arguments
// for all of them, and waits until it serves. The test's end kills it and deletes its
// data. It writes without waiting for the disk: that a machine loses power is no test.
func StartEtcd(t testing.TB, n int, args ...string) *Etcd {
	t.Helper()
	path, err := etcdProgram()
	if err != nil {
		t.Fatalf("etcd's server cannot be built: %v", err)
	}
	for {
		e, err := startEtcd(t, n, path, args)
		if err == nil {
			return e
		}
		if !errors.Is(err, ErrPortTaken) {
			t.Fatalf("etcd: %v", err)
		}
	}
}

func startEtcd(t testing.TB, n int, path string, args []string) (*Etcd, error) {
	t.Helper()
	e := &Etcd{t: t}
	var peers, everybody []string
	for i := range n {
		peers = append(peers, fmt.Sprintf("http://127.0.0.1:%d", FreePort(t)))
		everybody = append(everybody, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	scheme := "http"
	for _, a := range args {
		if a == "--cert-file" {
			scheme = "https"
		}
	}
	token := rand.Text() // two clusters never take each other for one
	for i := range n {
		dir := t.TempDir()
		m := &EtcdMember{process: process{t: t, port: FreePort(t), path: path, dir: dir,
			logPath: filepath.Join(dir, "log"), killSignal: syscall.SIGKILL},
			metrics: fmt.Sprintf("http://127.0.0.1:%d", FreePort(t))}
		url := scheme + "://" + m.Addr()
		m.args = append([]string{
			"--name", fmt.Sprint("m", i), "--data-dir", m.Data(), "--listen-client-urls", url, "--advertise-client-urls", url,
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", strings.Join(everybody, ","), "--initial-cluster-token", token,
			"--unsafe-no-fsync", "--log-level", "warn", "--listen-metrics-urls", m.metrics,
		}, args...)
		e.Members = append(e.Members, m)
		t.Cleanup(func() { m.end(m.killSignal) })
	}
	return e, e.start(e.Members)
}

// start starts members, all at once, since they wait for each other.
func (e *Etcd) start(members []*EtcdMember) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), etcdStart, fmt.Errorf("not up within %v", etcdStart))
	defer cancel()
	errs := make([]error, len(members))
	var starting sync.WaitGroup
	for i, m := range members {
		starting.Go(func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if errs[i] = m.launch(m.args); errs[i] == nil {
				errs[i] = m.await(ctx, func() error { return m.serves(ctx) })
			}
			if errs[i] != nil && !errors.Is(errs[i], ErrPortTaken) {
				errs[i] = fmt.Errorf("%w; its log:\n%s", errs[i], m.Log())
			}
		})
	}
	starting.Wait()
	return errors.Join(errs...)
}

// Start starts members again that were ended, and waits until each of them serves.
func (e *Etcd) Start(members ...*EtcdMember) {
	e.t.Helper()
	if err := e.start(members); err != nil {
		e.t.Fatalf("etcd: %v", err)
	}
}

// serves returns nil if a member answers a read that takes a leader and a majority.
func (m *EtcdMember) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.metrics+"/health", nil)
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
		return fmt.Errorf("the member's health is %s", response.Status)
	}
	return nil
}

// Addrs returns the members' addresses, separated by commas.
func (e *Etcd) Addrs() string {
	var all []string
	for _, m := range e.Members {
		all = append(all, m.Addr())
	}
	return strings.Join(all, ",")
}

// Restore puts a snapshot in the place of the data of a member that is down, as etcdutl does, with
// more arguments for it. The cluster of that member keeps its id.
func (m *EtcdMember) Restore(snapshot string, args ...string) {
	m.t.Helper()
	path, err := etcdTool(etcdUtility)
	if err == nil {
		err = os.RemoveAll(m.Data())
	}
	if err != nil {
		m.t.Fatal(err)
	}
	args = append([]string{"snapshot", "restore", snapshot}, args...)
	for i, a := range m.args[:len(m.args)-1] {
		switch a {
		case "--name", "--data-dir", "--initial-advertise-peer-urls", "--initial-cluster", "--initial-cluster-token":
			args = append(args, a, m.args[i+1])
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), etcdStart)
	defer cancel()
	if said, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		m.t.Fatalf("etcdutl: %v\n%s", err, said)
	}
}

// Certificate makes a certificate for a server on 127.0.0.1 or localhost, and for its
// clients: it is its own authority.
func Certificate(t testing.TB) (certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := newCertificate(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile
}
