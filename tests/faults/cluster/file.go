//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// File is a file that the clients share. It is on a small disk of its own if this process may mount
// one.
var File = &Engine{
	Name: "file", Local: true, TTL: TTL,
	start: func(t testing.TB, _ Persistence, _ []string) Server { return newDisk(t) },
	url:   func(_, through string, _ int) string { return "file://" + through },
}

// disk is where a file is. It never ends: what can end are the clients.
type disk struct {
	dir     string
	mounted error // nil: it is one of its own
}

const diskSize = 4 << 20

func newDisk(t testing.TB) *disk {
	d := &disk{dir: t.TempDir()}
	d.mounted = syscall.Mount("none", d.dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV,
		fmt.Sprintf("mode=0700,size=%d", diskSize))
	if d.mounted == nil {
		t.Cleanup(func() {
			if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	if err := os.Symlink("locks", d.Through(1)); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *disk) Addr() string { return d.Through(0) }

// Through returns the path by which a client opens the file: half of them come by a link.
func (d *disk) Through(client int) string {
	return filepath.Join(d.dir, [...]string{"locks", "link"}[client%2])
}

func (*disk) Pid() int { return os.Getpid() }
func (*disk) Kill()    {}
func (*disk) Stop()    {}
func (*disk) Restart() {}
func (*disk) Pause()   {}
func (*disk) Resume()  {}

// Fill has the file's disk be full until it is freed.
func (m *Member) Fill() (free func() error, err error) {
	d := m.Server().(*disk)
	if d.mounted != nil {
		return nil, fmt.Errorf("the file's disk is not its own, so that it cannot be filled: %w (unshare -Urm, and then this command, needs no root)", d.mounted)
	}
	ballast, err := os.CreateTemp(d.dir, "ballast")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotNow, err) // it is full
	}
	defer ballast.Close()
	free = func() error { return os.Remove(ballast.Name()) }
	for chunk := make([]byte, 4096); err == nil; {
		_, err = ballast.Write(chunk)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return nil, errors.Join(err, free())
	}
	return free, nil
}

// Move has the file's path lead to no file any more, or to another one that is new. The harness
// opens what is there with Reopen.
func (m *Member) Move(replaced bool) error {
	path := m.Server().Addr()
	if !replaced {
		return os.Remove(path)
	}
	other, err := os.CreateTemp(filepath.Dir(path), "other")
	if err != nil {
		return err
	}
	return errors.Join(other.Close(), os.Rename(other.Name(), path))
}

// Reopen has the harness look at the file that has the path now. It waits for a disk that is full.
func (m *Member) Reopen() error {
	m.life.Lock()
	defer m.life.Unlock()
	before := m.operator
	if err := again(HealLimit, func(context.Context) error { return m.open() }); err != nil {
		return err
	}
	return before.(io.Closer).Close()
}

// Tidy removes the pipes by which waiters are notified.
func (m *Member) Tidy() error { return os.RemoveAll(m.Server().Addr() + "-waiters") }
