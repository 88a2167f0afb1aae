//go:build unix

package testserver

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
)

// Program is a server that this package knows nothing of: it is launched and ended as
// the others are.
type Program struct{ process }

// Launch starts a program in a folder, which has its log as well, and waits until ready
// returns nil, or ctx is done. What fails is an error, ErrPortTaken among them, and the
// program is there for its log. The caller kills it.
func Launch(ctx context.Context, t testing.TB, folder, path string, args []string, ready func() error) (*Program, error) {
	p := &Program{process{
		t: t, path: path, dir: folder, logPath: filepath.Join(folder, "log"), killSignal: syscall.SIGKILL,
	}}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p, p.start(ctx, args, ready)
}

// Kill ends the program and its children (SIGKILL), and waits until it is gone.
func (p *Program) Kill() { p.t.Helper(); p.kill() }

// Pid returns the process id, 0 if the program has ended.
func (p *Program) Pid() int { return p.pid() }

// Log returns what the program has printed.
func (p *Program) Log() string { return p.log() }
