//go:build linux || darwin || freebsd

package filenode

import (
	cryptorand "crypto/rand"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// pipe is a client's pipe, open to tell one of its waiters. The nil pipe is of no waiter.
type pipe struct {
	fd      int
	message string
}

// pipeOf returns the path of the pipe of a waiter or client. What it is given
// has passed rule.CheckPlace: it becomes part of a path.
func (n *Node) pipeOf(waiter string) string {
	client, _, _ := strings.Cut(waiter, ":")
	return filepath.Join(n.pipes(), client)
}

// pipes is the folder of the pipes, beside the file itself: all who share the file
// must find it, by whatever links they came.
func (n *Node) pipes() string { return n.real + "-waiters" }

// reach opens the pipe of a waiter, or returns nil if no process would read what is written to it.
// Waiters that come out of the file have been checked before they went in; but others can write to
// the file.
func (n *Node) reach(waiter string) *pipe {
	if rule.CheckPlace(node.Place{Waiter: waiter}) != nil {
		return nil
	}
	path := n.pipeOf(waiter)
	fd, err := openToWrite(path)
	if errors.Is(err, syscall.ENXIO) {
		os.Remove(path)
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return &pipe{fd: -1} // it says nothing about the waiter, which asks again when its turn does not come
	}
	if err != nil && n.bound.chained(waiter) {
		return &pipe{fd: -1} // it has no pipe yet, see listener.late
	}
	if err != nil {
		return nil
	}
	_, number, _ := strings.Cut(waiter, ":")
	number, _, _ = strings.Cut(number, ":") // without the label
	return &pipe{fd, number + "\n"}
}

// tell writes the waiter's number. That never waits and is never cut in two: it
// is shorter than PIPE_BUF. A pipe that is full belongs to a process that is
// stopped, and has enough to read when it goes on.
func (p *pipe) tell() {
	if p != nil && p.fd >= 0 {
		ignoringEINTR(func() error {
			_, err := syscall.Write(p.fd, []byte(p.message))
			return err
		})
	}
}

func (p *pipe) close() {
	if p != nil && p.fd >= 0 {
		syscall.Close(p.fd)
		p.fd = -1
	}
}

// openToWrite opens a pipe that is being read. The error of one that is not is ENXIO. It is dead,
// since pipes get their name when they are being read, and are read for as long as their process
// lives.
func openToWrite(path string) (fd int, err error) {
	if fd, err = openPipe(path, syscall.O_WRONLY); err != nil {
		return -1, err
	}
	var info syscall.Stat_t
	if err = syscall.Fstat(fd, &info); err == nil && info.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		err = errors.New("not a pipe")
	}
	if err != nil {
		syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

// canPipe reports whether the folder of the pipes is there, and pipes can be made in it.
func (n *Node) canPipe() error {
	like, err := os.Stat(n.real)
	if err == nil {
		err = makeFolder(n.pipes(), like)
	}
	if err == nil {
		err = syscall.Access(n.pipes(), 3) // W_OK | X_OK
	}
	return err
}

// makePipe makes the pipe of a client and opens it. It gets its name when it is
// open.
func (n *Node) makePipe(client string) (*os.File, error) {
	like, err := os.Stat(n.real)
	if err != nil {
		return nil, err
	}
	if err := makeFolder(n.pipes(), like); err != nil {
		return nil, err
	}
	n.sweep()
	path := n.pipeOf(client)
	if fd, err := openToWrite(path); err == nil {
		syscall.Close(fd)
		return nil, engine.Invalidf("filenode: this client listens already")
	}
	draft := filepath.Join(n.pipes(), draftPrefix+cryptorand.Text())
	if err := ignoringEINTR(func() error { return syscall.Mkfifo(draft, 0o600) }); err != nil {
		return nil, &fs.PathError{Op: "mkfifo", Path: draft, Err: err}
	}
	defer os.Remove(draft) // does nothing once it has been renamed
	return publish(draft, path, like)
}

// publish opens the pipe that was made at draft, and gives it its name. Every process that may
// write to the file may write to the pipe. None may open it to read: it would take the
// notifications, and seem to be the client after its death.
func publish(draft, path string, like fs.FileInfo) (*os.File, error) {
	file, err := openToRead(draft)
	if err != nil {
		return nil, err
	}
	if err = adopt(file, like, fs.ModeNamedPipe, like.Mode().Perm()&0o222); err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// openToRead opens a pipe to read it, and to write, too: else each writer that
// closes it would end the reading. Non-blocking, so that reading takes no thread;
// os.OpenFile would not see to that on Darwin.
func openToRead(path string) (*os.File, error) {
	fd, err := openPipe(path, syscall.O_RDWR)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func openPipe(path string, mode int) (fd int, err error) {
	err = ignoringEINTR(func() error {
		fd, err = syscall.Open(path, mode|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
		return err
	})
	return fd, err
}

// makeFolder makes the folder of the pipes, unless it is there. Every process that may write to the
// file may make pipes in it.
func makeFolder(path string, like fs.FileInfo) error {
	switch err := os.Mkdir(path, 0o700); {
	case errors.Is(err, fs.ErrExist):
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
		}
		if err != nil || info.Mode().Perm() == folderMode(like) || !mine(info) {
			return err
		}
		// The file's permissions have changed since, or a process was killed before it had set these.
	case err != nil:
		return err
	}
	folder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names { // others could have put a folder of this user's there
		if rule.CheckClient(name) != nil && !strings.HasPrefix(name, draftPrefix) {
			return &fs.PathError{Op: "chmod", Path: path, Err: errForeign}
		}
	}
	return adopt(folder, like, fs.ModeDir, folderMode(like))
}

// folderMode returns the permissions of the folder of the pipes: all for those who may write to the
// file.
func folderMode(like fs.FileInfo) fs.FileMode {
	writers := like.Mode().Perm() & 0o222
	return writers<<1 | writers | writers>>1
}

// mine reports whether something is this user's.
func mine(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}

// errForeign is about something that others have put in the place of what this
// process has just made.
var errForeign = errors.New("another process has replaced it")

// adopt gives what was made for all users of the file its permissions. As far as this process may,
// it also gives it the owner and group of the file. It works by descriptor, since a path could lead
// elsewhere by now. It changes only what this process made. Others may write to the folder, and
// could have put a link to some file of this user there.
func adopt(f *os.File, like fs.FileInfo, kind, perm fs.FileMode) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != kind || int(is.Uid) != os.Geteuid() || kind != fs.ModeDir && is.Nlink != 1 {
		return &fs.PathError{Op: "chmod", Path: f.Name(), Err: errForeign}
	}
	if of, ok := like.Sys().(*syscall.Stat_t); ok && f.Chown(int(of.Uid), int(of.Gid)) != nil {
		_ = f.Chown(-1, int(of.Gid))
	}
	return f.Chmod(perm)
}

const (
	draftPrefix = "new-"
	// draftAge is when a draft is one of a process that was killed. Making one
	// takes microseconds.
	draftAge = time.Minute
	// sweepSize bounds what one sweep looks at, of the first sweepRead, by chance: in a herd, each
	// listener would look at all others. A dead pipe that is to be told something goes at once.
	sweepSize, sweepRead = 32, 1000
)

// sweep removes the pipes of processes that were killed.
func (n *Node) sweep() {
	folder, err := os.Open(n.pipes())
	if err != nil {
		return
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(sweepRead)
	for i := range min(len(names), sweepSize) {
		j := i + rand.IntN(len(names)-i)
		names[i], names[j] = names[j], names[i]
		name := names[i]
		path := filepath.Join(n.pipes(), name)
		if rule.CheckClient(name) != nil {
			info, err := os.Lstat(path)
			if !strings.HasPrefix(name, draftPrefix) || err != nil || time.Since(info.ModTime()) < draftAge {
				continue
			}
		}
		switch fd, err := openToWrite(path); {
		case err == nil:
			syscall.Close(fd)
		case errors.Is(err, syscall.ENXIO):
			os.Remove(path)
		}
	}
}

// isPermanent reports whether an error stays until the folder is changed.
func isPermanent(err error) bool {
	permanent := []error{fs.ErrPermission, syscall.EROFS, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG,
		syscall.EOPNOTSUPP, syscall.ENOSYS, errForeign}
	return slices.ContainsFunc(permanent, func(e error) bool { return errors.Is(err, e) })
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); err != syscall.EINTR {
			return err
		}
	}
}
