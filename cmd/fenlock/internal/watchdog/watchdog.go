//go:build linux || darwin || freebsd

// Package watchdog is the process between fenlock and the command. It is the parent of the command,
// and knows until when the lock is valid. It ends the command and what that has started before
// another client can have the lock. It does so also when fenlock was killed, was stopped, or waits
// for a reader of what it prints.
//
// It is fenlock's own program under another name, and runs to its end when this package is
// initialised. Go initialises packages in the order of their paths, after those that they import.
// This one comes before any engine of fenlock's, as long as it imports as little as it does.
package watchdog

import (
	"errors"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/caught"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/processes"
	"github.com/fenlock/fenlock/node/clock"
)

// Name is what a program that imports this package is started as to be a watchdog. Its argument is
// the descriptor of its end of the link. That was free in fenlock, since what fenlock was started
// with is the command's.
const Name = "fenlock-watchdog"

// comm is its name where no arguments are looked at, as by pkill; of at most 15
// bytes. "pkill fenlock" has to miss it: of two that are killed or stopped at the same
// moment, neither ends the command and what it started.
const comm = "lock-watchdog"

func init() {
	if os.Args[0] != Name || len(os.Args) != 2 {
		return
	}
	// The command is to die with its watchdog (Pdeathsig), but the kernel takes the
	// *thread* that started it for its parent. All init functions run on the main thread
	// (runtime.LockOSThread), which lives as long as the process.
	os.Exit(run(os.Args[1]))
}

const exitUsage = 64 // EX_USAGE

// run returns the exit status, which is not looked at: what there is to say goes over the link.
func run(argument string) int {
	descriptor, err := strconv.Atoi(argument)
	var l Link
	if err == nil && descriptor <= 2 {
		err = syscall.EBADF // the command's stdin, stdout or stderr, and no link if it is a socket
	}
	if err == nil {
		l, err = NewLink(descriptor)
	}
	if err != nil {
		os.Stderr.WriteString("fenlock: " + Name + " is started by fenlock run\n")
		return exitUsage
	}
	processes.Rename(comm)
	// Signals are for the command, which has them from fenlock, or from a program that takes its
	// parent for that. Caught, not ignored: the command would inherit that, as it would that
	// fenlock ignores SIGTTOU since it took the terminal back from the command before.
	caught.Notify(make(chan os.Signal, 1), syscall.SIGTSTP, syscall.SIGTTOU)
	signals := make(chan os.Signal, 64)
	caught.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1,
		syscall.SIGUSR2)
	processes.AdoptOrphans()
	return serve(l, signals, false)
}

// Here does in fenlock's own process what a watchdog does, for a lock that need not be extended. It
// ends with the processes that have it, and so needs no process that outlives fenlock. This process
// has no children but those of the command. It returns when the command has ended, and closes its
// end of the link. The command does not die with the thread that has started it, as in run, so that
// any thread will do.
func Here(l Link) {
	defer l.Close()
	if signal.Ignored(syscall.SIGTTOU) { // since fenlock took the terminal back from the command before
		signal.Reset(syscall.SIGTTOU)
	}
	serve(l, nil, true)
}

// serve runs the command that the link names. One that suspends may be stopped with Ctrl-Z, and
// goes on if this process is killed, as it has the lock by itself.
func serve(l Link, signals <-chan os.Signal, suspends bool) int {
	w := watchdog{link: l, orders: l.Orders(), signals: signals}
	w.ask()
	first, more := <-w.orders
	if !more || first.Job == nil || first.Answer == nil {
		return exitUsage
	}
	ttl := first.Job.TTL
	end, _ := w.end(first.Answer)
	if end-clock.Now() <= ttl/TermShare {
		// fenlock or this process was paused. A command that would be stopped at
		// once is not started.
		l.Report(News{Failed: &Failed{Late: true}})
		return 0
	}
	if suspends && first.Job.Foreground {
		// Caught, for the same reason as in run; without a terminal it would only cost.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	}
	child, err := start(first.Job, !suspends)
	if err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		l.Report(News{Failed: &Failed{Errno: errno}})
		return 0
	}
	child.suspends = suspends
	child.say = func(text string) { l.Report(News{Say: text}) }
	child.needsTerminal = func() { l.Report(News{NeedsTerminal: true}) }
	child.suspended = func() { l.Report(News{Suspended: true}) }
	l.Report(News{Started: child.pid})
	if !suspends { // else fenlock has threads enough
		prepareThreads() // not before: the command would wait for that
	}
	s := supervisor{ttl: ttl, child: child, watchdog: &w, end: end}
	how, stopped := s.run()
	over := Ended{How: how, Stopped: stopped}
	if stopped {
		over.Survivors = child.survivors()
	}
	l.Report(News{Ended: &over})
	return 0
}

// Ignore ignores signals, and so does what is started from now on.
func Ignore(signals []syscall.Signal) {
	for _, sig := range signals { // to signal.Ignore none would mean all
		signal.Ignore(sig)
	}
}
