//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver/probe"
)

// Start starts a server that was killed or stopped, on the same port. After Kill it
// recovers as from a crash.
func (p *Postgres) Start() {
	p.t.Helper()
	// Children of one that was killed may have the memory in use for a moment.
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(50 * time.Millisecond) {
		err := p.startOnPort()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("postgres: %v; its log:\n%s", err, p.Log())
		}
	}
}

// Stop ends the server as an administrator does: what is in memory is written, and
// connections are closed.
func (p *Postgres) Stop() { p.t.Helper(); p.end(syscall.SIGINT) }

// Kill ends the server as a crash would, paused or not.
func (p *Postgres) Kill() {
	p.t.Helper()
	p.signalChildren(syscall.SIGCONT)
	p.end(p.killSignal, syscall.SIGCONT)
}

// Pause freezes the server with all of its processes, of which each is a group of its own. To stop
// the first of them only would leave those at work that have a connection.
func (p *Postgres) Pause() {
	p.t.Helper()
	p.process.Pause()
	p.signalChildren(syscall.SIGSTOP) // there are no new ones any more
}

// Resume lets a paused server go on.
func (p *Postgres) Resume() {
	p.t.Helper()
	p.signalChildren(syscall.SIGCONT)
	p.process.Resume()
}

// Backends returns the processes that serve a connection.
func (p *Postgres) Backends() (pids []int) {
	for _, c := range probe.ChildrenOf(p.Pid()) {
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c))
		if err == nil && strings.HasPrefix(string(title), "postgres: postgres ") { // the user's name
			pids = append(pids, c)
		}
	}
	return pids
}

func (p *Postgres) signalChildren(sig syscall.Signal) {
	for _, pid := range probe.ChildrenOf(p.Pid()) {
		syscall.Kill(pid, sig)
	}
}

// Replica starts a server that follows this one.
func (p *Postgres) Replica() *Postgres {
	p.t.Helper()
	r := newPostgres(p.t)
	// A subprocess of root's makes files that the server's user may read.
	output, err := r.command("pg_basebackup", "-D", r.Data(), "-h", "127.0.0.1", "-p", strconv.Itoa(p.port),
		"-U", "postgres", "-X", "stream", "-R", "-c", "fast", "--no-sync").CombinedOutput()
	if err != nil {
		p.t.Fatalf("pg_basebackup: %v\n%s", err, output)
	}
	p.t.Cleanup(r.Kill)
	r.startAnywhere(r.startOnPort)
	return r
}

// Promote makes a replica a primary, and returns when it is one.
func (p *Postgres) Promote() {
	p.t.Helper()
	if output, err := p.command("pg_ctl", "promote", "-D", p.Data()).CombinedOutput(); err != nil {
		p.t.Fatalf("pg_ctl promote: %v\n%s", err, output)
	}
}

// Dump returns a database as SQL statements, by pg_dump.
func (p *Postgres) Dump() []byte {
	p.t.Helper()
	output, err := p.command("pg_dump", "-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-U", "postgres",
		"postgres").Output()
	if err != nil {
		var exit interface{ ExitCode() int }
		p.t.Fatalf("pg_dump: %v (%v)", err, errors.As(err, &exit))
	}
	return output
}

// PgBouncer is a pooler before a server, in transaction mode.
type PgBouncer struct{ process }

// StartPgBouncer starts a pooler with so many connections to the server.
func StartPgBouncer(t testing.TB, to *Postgres, poolSize int) *PgBouncer {
	t.Helper()
	path := "/usr/sbin/pgbouncer"
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("pgbouncer is not installed: %s", howToInstall)
	}
	b := &PgBouncer{unprivileged(t, path, "process up", syscall.SIGKILL)}
	t.Cleanup(b.Kill)
	b.startAnywhere(func() error {
		config := "[databases]\npostgres = host=127.0.0.1 port=" + strconv.Itoa(to.port) +
			"\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " +
			strconv.Itoa(b.port) + "\nauth_type = trust\nauth_file = " + filepath.Join(b.dir, "users") +
			"\npool_mode = transaction\nmax_client_conn = 1000\nunix_socket_dir =\n" +
			"default_pool_size = " + strconv.Itoa(poolSize) + "\n"
		if err := os.WriteFile(filepath.Join(b.dir, "users"), []byte("\"postgres\" \"\"\n"), 0o644); err != nil {
			return err
		}
		file := filepath.Join(b.dir, "ini")
		if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
			return err
		}
		return b.start([]string{file}, func() error { return nil })
	})
	return b
}

// DSN returns a URL that leads through the pooler.
func (b *PgBouncer) DSN() string {
	return "postgres://postgres@" + b.Addr() + "/postgres?sslmode=disable"
}
