//go:build unix

package testserver

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Server is one running Valkey or Redis primary, bound to the test that started
// it: what goes wrong fails that test. Addr, URL, Pid, Log and Ask are
// safe for concurrent use; the other methods belong on the test's goroutine, as t.Fatal
// does.
type Server struct {
	// CAFile is the certificate of the authority that signed the server's;
	// CertFile and KeyFile are a client's. PEM; empty unless StartTLS made the server.
	CAFile, CertFile, KeyFile string

	kind   Kind
	config []string    // "directive value"; later ones override earlier ones
	tls    *tls.Config // of a client; nil without TLS
	process
}

// Start starts a server without persistence on a free loopback port and waits
// until it answers, up to 30 seconds. Configuration is given as in the server's
// file, "directive value" each ("appendonly yes", "appendfsync always"), and
// overrides the defaults; port, bind, dir, logfile, and a log level above notice
// are not for the caller to set. The test's end kills the server.
func Start(t testing.TB, kind Kind, config ...string) *Server {
	t.Helper()
	return StartWith(t, kind, nil, config...)
}

// StartWith is Start with more environment variables, "NAME=value" each, for all
// of the server's lives.
func StartWith(t testing.TB, kind Kind, environment []string, config ...string) *Server {
	t.Helper()
	s := newServer(t, kind, config)
	s.environment = environment
	s.startAnywhere(s.startOnPort)
	return s
}

// Group starts n servers that know nothing of each other. See Start.
func Group(t testing.TB, kind Kind, n int, config ...string) []*Server {
	t.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = Start(t, kind, config...)
	}
	return servers
}

func newServer(t testing.TB, kind Kind, config []string) *Server {
	t.Helper()
	path := installed()[kind]
	if path == "" {
		t.Fatalf("%s-server is not installed: %s", kind, howToInstall)
	}
	place := Place{}
	if places != nil {
		place = places(t)
	}
	folder := t.TempDir()
	s := &Server{
		kind:   kind,
		config: append([]string{`save ""`, "appendonly no"}, config...),
		process: process{
			t: t, host: place.Host, via: place.Via, path: path, dir: folder, logPath: filepath.Join(folder, "log"),
			readyLine: "Ready to accept connections", killSignal: syscall.SIGKILL,
		},
	}
	if err := os.Mkdir(s.Data(), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

func (s *Server) startOnPort() error {
	lines := []string{"bind " + cmp.Or(s.host, "127.0.0.1"), "daemonize no", "dir " + strconv.Quote(s.Data())}
	if s.tls != nil {
		lines = append(lines, "port 0", fmt.Sprint("tls-port ", s.port))
	} else {
		lines = append(lines, fmt.Sprint("port ", s.port))
	}
	lines = append(append(lines, s.config...), s.users()...)
	file := filepath.Join(s.dir, "conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	return s.start([]string{file}, s.ping)
}

// ping returns nil if the server serves commands, or would if it knew us.
func (s *Server) ping() error {
	reply, err := s.Ask("", "", callTimeout, "PING")
	if err != nil {
		return err
	}
	for _, up := range []string{"PONG", "NOAUTH", "NOPERM"} {
		if strings.HasPrefix(reply, up) {
			return nil
		}
	}
	return errors.New(reply) // LOADING
}

// URL returns "valkey://127.0.0.1:port", or "redis://"; with TLS "valkeys://" or
// "rediss://".
func (s *Server) URL() string {
	scheme := string(s.kind)
	if s.tls != nil {
		scheme += "s"
	}
	return scheme + "://" + s.Addr()
}

// Restart starts the server again after Kill, Stop or its own end, with the same
// port and folder, and waits until it answers. Additional configuration overrides
// the earlier one, in later restarts too.
func (s *Server) Restart(config ...string) {
	s.t.Helper()
	if s.Pid() != 0 {
		s.t.Fatalf("restart: %s is still running", s.Addr())
	}
	s.config = append(s.config, config...)
	if err := s.startOnPort(); err != nil {
		s.t.Fatalf("restart of %s-server %s: %v; its log:\n%s", s.kind, s.Addr(), err, s.Log())
	}
}

// Wipe deletes the data of a server that is down, as the loss of a disk would.
func (s *Server) Wipe() { s.t.Helper(); s.wipe() }
