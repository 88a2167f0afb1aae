//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/processes"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/watchdog"
	"github.com/fenlock/fenlock/node/filenode"
	"golang.org/x/sys/unix"
)

// onFile reports whether the lock is in a file of this machine. It opens nothing; whatever is wrong
// with the nodes is for open to say.
func (f nodeFlags) onFile() bool {
	all, err := f.list()
	if err != nil || len(all) > 1 {
		return false
	}
	if all == nil {
		return true
	}
	engine, err := engineOf(all[0].url)
	return err == nil && engine.name == fileEngine
}

// bindable reports whether the lock may end with its processes. It is not to outlast them, nor to
// end before a process that may be stopped.
func (o *runOptions) bindable() bool {
	return !o.byTime && o.atLeast == 0 && o.maxHold == 0 && o.nodes.onFile()
}

// bind has a lock in a file end with fenlock and its command, whatever ends them, and never before.
// So it need not be extended, and the command needs no watchdog. Where that is not possible the
// lease is by time.
func (o *runOptions) bind(nodes []fenlock.Node) error {
	file, is := nodes[0].Engine().(*filenode.Node)
	if !is || !o.bindable() {
		return nil
	}
	alive, err := file.Bind()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	o.alive = alive
	return err
}

// leastShared is the least descriptor that the command has for the lock. Shell scripts use the
// first ten as they like, and shells themselves those behind.
const leastShared = 100

// watchBound is watch for a bound lock, whose file is alive. The command has it open as well.
func watchBound(alive *os.File, within time.Duration, environment []string) (w *watched, err error) {
	// From now on: fenlock starts nothing else.
	shared, err := unix.FcntlInt(alive.Fd(), syscall.F_DUPFD, leastShared)
	if err != nil { // the limit of open files is low
		shared, err = unix.FcntlInt(alive.Fd(), syscall.F_DUPFD, 3)
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if len(processes.Descendants()) == 0 {
		w = watchHere()
	} else {
		// A shell that has become fenlock had started something: what that forks later could not be
		// told from what the command does.
		w, err = watch(within, environment)
	}
	if err != nil {
		syscall.Close(shared)
		return nil, err
	}
	w.shared = shared
	return w, nil
}

// watchHere has fenlock do its watchdog's work itself.
func watchHere() *watched {
	processes.AdoptOrphans()
	l, here := watchdog.Local()
	w := &watched{link: l, news: l.News(), gone: make(chan struct{})}
	go func() {
		watchdog.Here(here)
		close(w.gone)
	}()
	return w
}
