package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// server runs with deploy/valkey/fenlock.conf, on a port of its own.
type server struct {
	t        testing.TB
	kind     testserver.Kind
	port     string
	folder   string // of its data and its log
	users    string // its users.acl
	operator string // the password
	socket   string // where it listens instead, if not empty
	ca       string // the authority of its certificate; empty: no TLS
	*testserver.Program
}

func (s *server) addr() string { return "127.0.0.1:" + s.port }

// cluster is a new group with the credentials that credentials.sh makes.
type cluster struct {
	servers []*server
	nodes   string // FENLOCK_NODES
}

// newCluster starts n servers.
func newCluster(t testing.TB, kind testserver.Kind, n int) cluster {
	t.Helper()
	var c cluster
	var addresses []string
	for range n {
		s := &server{t: t, kind: kind, port: freePort(t), folder: t.TempDir()}
		c.servers, addresses = append(c.servers, s), append(addresses, s.addr())
	}
	folder := t.TempDir()
	if said, err := credentials(t, folder, addresses...); err != nil {
		t.Fatalf("credentials.sh: %v: %s", err, said)
	}
	text, err := os.ReadFile(filepath.Join(folder, "nodes.env"))
	must(t, err)
	c.nodes = strings.TrimPrefix(strings.TrimSpace(string(text)), "FENLOCK_NODES=")
	password, err := os.ReadFile(filepath.Join(folder, "operator.password"))
	must(t, err)
	for _, s := range c.servers {
		s.users, s.operator = filepath.Join(folder, "users.acl"), strings.TrimSpace(string(password))
		s.start()
	}
	return c
}

// credentials runs credentials.sh in a folder.
func credentials(t testing.TB, folder string, servers ...string) (said string, err error) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{absolute(t, "valkey/credentials.sh")}, servers...)...)
	cmd.Dir = folder
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// arguments are those of the server's program. More override what the file says.
func (s *server) arguments(more ...string) []string {
	all := []string{absolute(s.t, "valkey/fenlock.conf"), "--dir", s.folder, "--aclfile", s.users}
	if s.socket != "" {
		all = append(all, "--port", "0", "--unixsocket", s.socket)
	} else {
		all = append(all, "--port", s.port)
	}
	return append(all, more...)
}

// cli is the servers' own client, with where the server is.
func (s *server) cli() []string {
	if s.socket != "" {
		return []string{string(s.kind) + "-cli", "-s", s.socket}
	}
	all := []string{string(s.kind) + "-cli", "-p", s.port}
	if s.ca != "" {
		all = append(all, "--tls", "--cacert", s.ca)
	}
	return all
}

// start starts it, again if it has ended, and waits until it answers.
func (s *server) start(more ...string) {
	s.t.Helper()
	if err := s.try(s.arguments(more...)...); err != nil {
		s.t.Fatalf("%s-server: %v; its log:\n%s", s.kind, err, s.Log())
	}
}

// try is start with any arguments, which may not be any good.
func (s *server) try(arguments ...string) error {
	s.t.Helper()
	path, err := exec.LookPath(string(s.kind) + "-server")
	must(s.t, err)
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	before := s.timesReady()
	s.Program, err = testserver.Launch(ctx, s.t, s.folder, path, arguments, func() error {
		// Another server might answer, if the port was taken.
		if s.timesReady() == before {
			return errors.New("it has not logged that it is ready")
		}
		return s.refusesStrangers()
	})
	s.t.Cleanup(s.Kill)
	return err
}

// timesReady is how often it has been ready, by its log.
func (s *server) timesReady() int {
	text, _ := os.ReadFile(filepath.Join(s.folder, "log"))
	return strings.Count(strings.ToLower(string(text)), "ready to accept connections")
}

// ports are those that a server of this test has or will have. The next one to look
// for a port must not find it free meanwhile.
var ports sync.Map

func freePort(t testing.TB) string {
	t.Helper()
	for {
		port := strconv.Itoa(testserver.FreePort(t))
		if _, taken := ports.LoadOrStore(port, true); !taken {
			return port
		}
	}
}

// refusesStrangers is the containers' health check. It returns nil if the server answers, and
// serves no client without a login.
func (s *server) refusesStrangers() error {
	said, err := exec.Command("sh", "-c",
		strings.Replace(healthCheck, "valkey-cli", strings.Join(s.cli(), " "), 1)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

// healthCheck is what compose and Kubernetes ask a server; the tests of those compare.
const healthCheck = "valkey-cli ping | grep -q NOAUTH"

// as sends a command as a user, with the servers' own client, and returns the reply.
func (s *server) as(user, password string, command ...string) string {
	s.t.Helper()
	all := append(s.cli(), append([]string{"--user", user}, command...)...)
	cmd := exec.Command(all[0], all[1:]...)
	cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+password, "VALKEYCLI_AUTH="+password)
	said, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %v: %s", command, err, said)
	}
	return strings.TrimSpace(string(said))
}

// operate sends a command as the operator.
func (s *server) operate(command ...string) string {
	s.t.Helper()
	return s.as("operator", s.operator, command...)
}

// votes reports whether the server is admitted, as docs/operations.md has it.
func (s *server) votes() bool {
	s.t.Helper()
	mark := s.operate("HGET", testserver.RegistersKey(valkeynode.DefaultPrefix), "admitted")
	return mark != "" && mark == testserver.Field(s.operate("INFO", "replication"), "master_replid")
}

// client opens a Locker on the group as nodes.env names it.
func (c cluster) client(t testing.TB, change func(*fenlock.Config)) *fenlock.Locker {
	t.Helper()
	var config fenlock.Config
	for url := range strings.SplitSeq(c.nodes, ",") {
		n, err := valkeynode.Open(url)
		must(t, err)
		config.Nodes = append(config.Nodes, n)
	}
	if change != nil {
		change(&config)
	}
	l, err := fenlock.New(config)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// newServers says so, or each test would wait for MaxTTL first.
func newServers(c *fenlock.Config) { c.NewServers = true }

// takes returns a lock that must be free before long.
func takes(t testing.TB, l *fenlock.Locker, name string) *fenlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	lock, err := l.Acquire(ctx, name)
	must(t, err)
	return lock
}

// eventually tries again until there is no error. The bound is for a hung test.
func eventually(t testing.TB, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("never: %v", err)
}
