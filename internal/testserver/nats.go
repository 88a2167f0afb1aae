//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var natsProgram = sync.OnceValues(func() (string, error) { return tool("nats", "github.com/nats-io/nats-server/v2") })

// NATS is a server of NATS with JetStream, bound to the test that started it.
type NATS struct {
	process
	config []string
	// Monitor is the address at which it tells of itself, by HTTP.
	Monitor string
}

// StartNATS starts a server on a free loopback port that syncs each write, with more lines of
// configuration. The test's end kills it and deletes its data.
func StartNATS(t testing.TB, config ...string) *NATS {
	t.Helper()
	s := newNATS(t, config)
	s.startAnywhere(s.startOnPort)
	return s
}

// StartNATSCluster starts n servers of one cluster, with more lines of configuration for each.
func StartNATSCluster(t testing.TB, n int, config ...string) (all []*NATS) {
	t.Helper()
	var routes []string
	for range n {
		routes = append(routes, net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t))))
	}
	for i, route := range routes {
		s := newNATS(t, append([]string{"server_name: s" + strconv.Itoa(i),
			fmt.Sprintf("cluster { name: c, listen: %q, routes: [\"nats://%s\"] }", route,
				strings.Join(routes, `", "nats://`))}, config...))
		s.startAnywhere(s.startOnPort)
		all = append(all, s)
	}
	return all
}

func newNATS(t testing.TB, config []string) *NATS {
	t.Helper()
	path, err := natsProgram()
	if err != nil {
		t.Fatalf("NATS's server cannot be built: %v", err)
	}
	folder := t.TempDir()
	s := &NATS{process: process{t: t, path: path, dir: folder, logPath: filepath.Join(folder, "log"),
		readyLine: "Server is ready", killSignal: syscall.SIGKILL}, config: config}
	t.Cleanup(s.Kill)
	return s
}

// Restart starts a server that is down again, with its data, and with more lines of configuration
// from now on.
func (s *NATS) Restart(config ...string) {
	s.t.Helper()
	s.config = append(s.config, config...)
	if err := s.startOnPort(); err != nil {
		s.t.Fatalf("restart: %v; its log:\n%s", err, s.Log())
	}
}

// Wipe deletes the data of a server that is down.
func (s *NATS) Wipe() {
	s.t.Helper()
	if err := os.RemoveAll(s.Data()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *NATS) startOnPort() error {
	s.Monitor = net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(s.t)))
	file := filepath.Join(s.dir, "nats.conf")
	text := strings.Join(append([]string{
		fmt.Sprintf("listen: %q\nhttp: %q\nstore_dir: %q", s.Addr(), s.Monitor, s.Data()),
	}, s.config...), "\n") + "\n"
	if !strings.Contains(text, "jetstream") {
		text += "jetstream { sync_interval: always }\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	return s.start([]string{"-c", file}, func() error {
		conn, err := s.connect(callTimeout)
		if err != nil {
			return err
		}
		defer conn.Close()
		var first [5]byte
		if n, err := conn.Read(first[:]); err != nil || string(first[:n]) != "INFO " {
			return errors.Join(err, fmt.Errorf("it begins with %q", first[:n]))
		}
		return nil
	})
}
