//go:build linux || darwin || freebsd

package demo

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// server is a Valkey or Redis server on a port of the loopback address.
type server struct {
	name    string // in the scene
	stage   *stage
	port    int
	folder  string
	durable bool // every write is on the disk before it is answered
	run     *process
}

// newServer starts a server. Unless it is durable, it forgets everything when it ends.
func (st *stage) newServer(name string, durable bool) *server {
	s := &server{name: name, stage: st, port: st.freePort(), folder: filepath.Join(st.folder, name), durable: durable}
	st.must(os.Mkdir(s.folder, 0o700))
	s.launch()
	st.atEnd(s.kill)
	return s
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// kill ends it as a crash would.
func (s *server) kill() { s.run.kill() }

// launch starts it, or starts it again at the same port, and waits until it answers.
func (s *server) launch() {
	disk := "no"
	if s.durable {
		disk = "yes"
	}
	log, err := os.Create(filepath.Join(s.folder, "log"))
	s.stage.must(err)
	defer log.Close()
	cmd := exec.Command(s.stage.binary, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.folder,
		"--daemonize", "no", "--save", "", "--appendonly", disk, "--appendfsync", "always", "--no-appendfsync-on-rewrite",
		"no", "--aof-load-truncated", "no")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.folder, log, log
	s.run, err = s.stage.keeper.launch(cmd)
	s.stage.must(err)
	s.stage.until(s.name+" is up", func() bool {
		text, err := os.ReadFile(log.Name())
		s.stage.must(err)
		s.stage.require(s.run.alive(), "%s has ended: %s", s.stage.binary, text[max(0, len(text)-1<<10):])
		return strings.Contains(string(text), "Ready to accept connections")
	})
}

// freePort returns a port that is free at the moment. The port is below those that kernels give to
// outgoing connections. One of these could take the port of a server that is down.
func (st *stage) freePort() int {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			listener.Close()
			return port
		}
	}
	st.require(false, "found no free port between 20000 and 32000")
	return 0
}

// versionPattern matches what servers print for --version. Every command would pay for it, if it
// were compiled when the program starts.
var versionPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(Valkey|Redis) server v=((\d+)\.[0-9.]+)`)
})

// findServer returns the program of the server that is installed, Valkey if both are, and kind and
// version, such as "Valkey 8.0.1". They are empty if there is none, or only a Redis that is too
// old.
func findServer() (path, product string) {
	for _, name := range []string{"valkey-server", "redis-server"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		text, err := exec.Command(path, "--version").Output()
		// Either may be installed under the other's name.
		m := versionPattern().FindStringSubmatch(string(text))
		if err != nil || m == nil {
			continue
		}
		if major, _ := strconv.Atoi(m[3]); m[1] == "Valkey" || major >= 7 {
			return path, m[1] + " " + m[2]
		}
	}
	return "", ""
}
