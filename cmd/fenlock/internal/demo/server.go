//go:build linux || darwin || freebsd

package demo

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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
	s := &server{name: name, stage: st, folder: filepath.Join(st.folder, name), durable: durable}
	st.must(os.Mkdir(s.folder, 0o700))
	for {
		s.port = st.freePort()
		err := s.launch()
		if err == nil {
			st.names = append(st.names, "valkey://"+s.address(), name, "redis://"+s.address(), name, s.address(), name)
			return s
		}
		if !errors.Is(err, errTaken) {
			st.must(fmt.Errorf("%s: %w", st.binary.path, err))
		}
	}
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// url names the server the same at every address: see group.clientWithout.
func (s *server) url() string { return s.urlAt(s.port) }

func (s *server) urlAt(port int) string {
	return fmt.Sprintf("valkey://127.0.0.1:%d?name=%s", port, s.name)
}

// kill ends it as a crash would.
func (s *server) kill() { s.run.kill() }

// restart starts it again at the same port.
func (s *server) restart() { s.stage.must(s.launch()) }

var errTaken = errors.New("the port is taken")

func (s *server) launch() error {
	disk := "no"
	if s.durable {
		disk = "yes"
	}
	logPath := filepath.Join(s.folder, "log")
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.stage.binary.path, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.folder,
		"--daemonize", "no", "--save", "", "--appendonly", disk, "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no", "--aof-load-truncated", "no")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.folder, log, log
	run, err := s.stage.keeper.launch(cmd)
	if err != nil {
		return err
	}
	if s.run == nil {
		s.stage.atEnd(func() { s.run.kill() })
	}
	s.run = run
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); s.stage.pause(5 * time.Millisecond) {
		said, _ := os.ReadFile(logPath)
		text := string(said)
		switch {
		case strings.Contains(text, "Address already in use"):
			s.run.kill()
			return errTaken
		case !s.run.alive():
			return fmt.Errorf("it has ended: %s", text[max(0, len(text)-1<<10):])
		// The log comes first: at a port that is taken, somebody else would answer.
		case strings.Contains(text, "Ready to accept connections") && s.answers():
			return nil
		}
	}
	return fmt.Errorf("it is not up within %v", patience)
}

func (s *server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.address(), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	io.WriteString(conn, "PING\r\n")
	answer := make([]byte, 5)
	_, err = io.ReadFull(conn, answer)
	return err == nil && string(answer) == "+PONG"
}

// freePort returns a port that nobody listens on at the moment. It is below those
// that kernels give to outgoing connections: one of these could take the port of a
// server that is down.
func (st *stage) freePort() int {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			listener.Close()
			return port
		}
	}
	st.fail("found no free port between 20000 and 32000")
	return 0
}
