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
func Launch(ctx context.Context, t testing.TB, folder, path string, args []string,
	ready func() error) (*Program, error) {
	p := &Program{process{
		t: t, path: path, dir: folder, logPath: filepath.Join(folder, "log"), killSignal: syscall.SIGKILL,
	}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.launch(args); err != nil {
		return p, err
	}
	return p, p.await(ctx, ready)
}
