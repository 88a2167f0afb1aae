//go:build linux || darwin || freebsd

package watchdog

import (
	"os"
	"syscall"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/caught"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/execvp"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/processes"
)

// child is the command, in a process group of its own. A signal reaches what it started too, unless
// that moved to another group (a daemon, the jobs of an interactive shell). It belongs to one
// goroutine, which alone reaps it: so its id cannot be another process's between a look and a
// signal.
type child struct {
	pid           int // also the group's id
	say           func(string)
	needsTerminal func() // it was stopped because it does
	suspended     func() // it was stopped with Ctrl-Z, and stays so
	suspends      bool   // its lock need not be extended, so that it may stay so
	told          bool   // suspended was called since the command was last told to go on
}

// start runs the command with the watchdog's stdin, stdout and stderr, which are
// fenlock's. If fenlock has the terminal, the command gets it: a process of a background
// group is stopped when it reads. The command ignores the signals that it is said to, and
// all others do what they do by default.
func start(j *Job, dies bool) (*child, error) {
	attr := &syscall.SysProcAttr{Setpgid: true, Foreground: j.Foreground}
	if dies {
		dieWithParent(attr)
	}
	Ignore(j.Ignored)
	// Not by package os: that would first try, with a process of its own, what it would
	// wait by. poll waits here: os.Process would not tell of a command that was stopped.
	c := &child{}
	fork := func() (err error) {
		c.pid, err = execvp.ForkExec(j.Args, &syscall.ProcAttr{Env: j.Env, Files: []uintptr{0, 1, 2}, Sys: attr})
		return err
	}
	if dies {
		return c, fork() // fenlock, another process, ends a watchdog that stands still here
	}
	return c, processes.Aside(fork)
}

// changes returns a channel that has a value when poll should be called.
func (c *child) changes() <-chan os.Signal {
	// One is enough, however many changes: poll sees them all.
	changes := make(chan os.Signal, 1)
	caught.Notify(changes, syscall.SIGCHLD)
	return changes
}

// poll reaps the command if it has ended, and says how. After that it must not be
// called again. It also reaps the orphans that the watchdog has adopted.
//
// A command that is stopped with Ctrl-Z is continued at once, where its lock has to be extended.
// The shell that should be told to go on knows fenlock only; if fenlock were stopped as well, the
// lock would not be extended.
func (c *child) poll() (how syscall.WaitStatus, ended bool) {
	for {
		pid, err := syscall.Wait4(-1, &how, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			// No other goroutine reaps our children.
			panic("fenlock: wait4: " + err.Error())
		case pid == 0:
			return how, false
		case pid != c.pid:
			continue
		case !how.Stopped():
			return how, true
		}
		switch how.StopSignal() {
		case syscall.SIGTSTP:
			if c.suspends {
				if !c.told {
					c.suspended()
				}
				c.told = true
				continue
			}
			c.say("the command goes on: the lock of a job that is stopped (Ctrl-Z) would not be extended")
			c.signal(syscall.SIGCONT)
		case syscall.SIGTTIN, syscall.SIGTTOU:
			c.needsTerminal()
		}
	}
}

// signal sends a signal to the whole process group, if a process of it is left.
func (c *child) signal(sig syscall.Signal) error {
	if sig == syscall.SIGCONT {
		c.told = false
	}
	return send(-c.pid, sig)
}

// send sends a signal to a process or a group. A stopped process ends by a signal only when it goes
// on, so that it is told to. A job would keep its lock for ever otherwise, as the lock is extended
// for it.
func send(pid int, sig syscall.Signal) error {
	err := syscall.Kill(pid, sig)
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		syscall.Kill(pid, syscall.SIGCONT)
	}
	return err
}

// stop sends a signal to the process group, and to what the command has started that moved
// elsewhere. An error says that the group has a process that may not be signalled.
func (c *child) stop(sig syscall.Signal) error {
	err := c.signal(sig)
	for _, p := range processes.Descendants() {
		if group, _ := syscall.Getpgid(p.Pid); group != c.pid {
			send(p.Pid, sig)
		}
	}
	if err == syscall.ESRCH {
		err = nil
	}
	return err
}

// alive reports whether a process is left. After the command was reaped the number of its group
// could in theory be given to another group; systems count all the way round before they do, which
// takes longer than the short time in which this is called.
func (c *child) alive() bool {
	if left := processes.Reap(); processes.Adopts {
		return left
	}
	return syscall.Kill(-c.pid, 0) != syscall.ESRCH
}

// survivors are those who could not be ended.
func (c *child) survivors() []processes.Process {
	if !c.alive() {
		return nil
	}
	if all := processes.Descendants(); len(all) > 0 {
		return all
	}
	return []processes.Process{{Pid: c.pid, Name: "its group"}}
}
