//go:build unix

package testserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Postgres is one running PostgreSQL server with an empty cluster, bound to the
// test that started it.
type Postgres struct {
	process
	bin      string   // the folder of its programs
	settings []string // "name=value"
}

// StartPostgres makes a cluster and starts a server on it, on a free loopback port and without a
// Unix socket. Every client is trusted. It takes a second or two: share a server among subtests.
// The test's end stops it and deletes the cluster. If the test runs as root the server, which
// refuses root, runs as the user postgres or another one without privileges.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	return StartPostgresWith(t, nil)
}

// StartPostgresWith is StartPostgres with more environment variables and settings,
// "NAME=value" and "name=value" each, for all of the server's lives.
func StartPostgresWith(t testing.TB, environment []string, settings ...string) *Postgres {
	t.Helper()
	p := newPostgres(t)
	p.environment, p.settings = environment, settings
	initdb := p.command("initdb", "--pgdata", p.Data(), "--auth", "trust",
		"--username", "postgres", "--encoding", "UTF8", "--no-locale", "--no-sync")
	if output, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, output)
	}
	t.Cleanup(p.Kill)
	p.startAnywhere(p.startOnPort)
	return p
}

// newPostgres returns a server that has no data yet.
func newPostgres(t testing.TB) *Postgres {
	t.Helper()
	bin := postgresBin()
	if bin == "" {
		t.Fatalf("the PostgreSQL server is not installed: %s", howToInstall)
	}
	// SIGKILL would leave its children running for a while.
	return &Postgres{process: unprivileged(t, filepath.Join(bin, "postgres"), "database system is ready to accept",
		syscall.SIGQUIT), bin: bin}
}

// command returns one of PostgreSQL's programs, as the server's user.
func (p *Postgres) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(p.bin, program), args...)
	c.Dir, c.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: p.credential}
	return c
}

// DSN returns "postgres://postgres@127.0.0.1:port/postgres?sslmode=disable".
func (p *Postgres) DSN() string {
	return "postgres://postgres@" + p.Addr() + "/postgres?sslmode=disable"
}

func (p *Postgres) startOnPort() error {
	args := []string{
		"-D", p.Data(), "-h", "127.0.0.1", "-p", strconv.Itoa(p.port),
		// fsync matters when the machine crashes, not the process.
		"-c", "unix_socket_directories=", "-c", "fsync=off",
	}
	for _, s := range p.settings {
		args = append(args, "-c", s)
	}
	return p.start(args, p.ready)
}

// ready returns nil if the server lets a client in. A startup message (protocol 3.0) is answered by
// an authentication request, R, or by an error, E.
func (p *Postgres) ready() error {
	conn, err := p.connect(callTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	message := binary.BigEndian.AppendUint32(make([]byte, 4), 3<<16)
	message = append(message, "user\x00postgres\x00database\x00postgres\x00\x00"...)
	binary.BigEndian.PutUint32(message, uint32(len(message)))
	if _, err := conn.Write(message); err != nil {
		return err
	}
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return err
	}
	if kind[0] != 'R' {
		return fmt.Errorf("answered %q to the startup message", kind[0])
	}
	return nil
}

// postgresBin returns the folder of the newest installed server's programs, which
// Debian keeps out of the PATH, or "".
func postgresBin() string {
	newest, bin := 0, ""
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	for _, path := range found {
		version, _ := strconv.Atoi(strings.Split(path, "/")[4])
		if version > newest {
			newest, bin = version, filepath.Dir(path)
		}
	}
	if bin == "" {
		if path, err := exec.LookPath("initdb"); err == nil {
			bin = filepath.Dir(path)
		}
	}
	return bin
}

// unprivileged returns a program that refuses to run as root, with a folder of its own. If the test
// runs as root, it has another user.
func unprivileged(t testing.TB, path, readyLine string, killSignal syscall.Signal) process {
	t.Helper()
	// Not t.TempDir, whose parent only the test's own user may enter.
	folder, err := os.MkdirTemp("", "fenlock-"+filepath.Base(path)+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	var user *syscall.Credential
	if os.Getuid() == 0 {
		user = otherUser(t)
		if err := os.Chown(folder, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return process{t: t, path: path, dir: folder, logPath: filepath.Join(folder, "log"), readyLine: readyLine,
		killSignal: killSignal, credential: user}
}

func otherUser(t testing.TB) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Fatal("the program refuses to run as root, and there is no user postgres, nor another one without privileges")
	return nil
}
