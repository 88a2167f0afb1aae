//go:build linux || darwin || freebsd

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// child is the command, in a process group of its own: a signal reaches what it
// started too, unless that moved to another group (a daemon, the jobs of an
// interactive shell). It belongs to one goroutine, which alone reaps it: so its id
// cannot be somebody else's between a look and a signal.
type child struct {
	pid int // also the group's id
	say func(string)
}

// find returns the path of the program that a shell would run, or an error with
// the status that a shell would exit with.
func find(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err == nil || errors.Is(err, exec.ErrDot) {
		// ErrDot: PATH has the working folder. That was the user's decision.
		return path, nil
	}
	if errors.Is(err, exec.ErrNotFound) && command != "" && !strings.Contains(command, "/") {
		for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
			found := filepath.Join(folder, command)
			if info, err := os.Stat(found); err == nil && info.Mode().IsRegular() {
				return "", exitf(exitNotExecutable, "%s is not executable", found)
			}
		}
		return "", exitf(exitNotFound, "%s: command not found", command)
	}
	if command == "" {
		return "", exitf(exitNotFound, "the command is empty")
	}
	return "", startError(command, err)
}

// startError turns the error of a program that cannot be run into one with the
// status of a shell: 127 if it (or its interpreter) is not there, else 126.
func startError(command string, err error) error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return exitf(exitNotFound, "%s: not found (if it is a script: the program of its first line)", command)
	case errors.Is(err, syscall.ENOEXEC):
		return exitf(exitNotExecutable, "%s: no program, and a script needs a first line such as #!/bin/sh", command)
	case errors.As(err, &errno):
		return exitf(exitNotExecutable, "%s: %v", command, errno)
	}
	return exitf(exitNotExecutable, "%s: %v", command, err)
}

// start runs the program with the watchdog's stdin, stdout and stderr, which are
// fenlock's. If fenlock has the terminal, the command gets it: a process of a background
// group is stopped when it reads.
func start(j *job, say func(string)) (*child, error) {
	cmd := &exec.Cmd{
		Path: j.Path, Args: j.Args, Env: j.Env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Foreground: j.Foreground},
	}
	dieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, startError(j.Args[0], err)
	}
	c := &child{pid: cmd.Process.Pid, say: say}
	// Reaped by poll: Process.Wait would not tell of a command that was stopped.
	cmd.Process.Release()
	return c, nil
}

// changes returns a channel that has a value when poll should be called.
func (c *child) changes() <-chan os.Signal {
	// One is enough, however many changes: poll sees them all.
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGCHLD)
	return changes
}

// poll reaps the command if it has ended, and says how. After that it must not be
// called again. It also reaps the orphans that the watchdog has adopted.
//
// A command that is stopped with Ctrl-Z is continued at once. The shell that
// should be told to go on knows fenlock only; if fenlock were stopped as well,
// nobody would extend the lock.
func (c *child) poll() (how syscall.WaitStatus, ended bool) {
	for {
		pid, err := syscall.Wait4(-1, &how, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			// Nobody else reaps our children.
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
			c.say("the command goes on: nobody would extend the lock of a job that is stopped (Ctrl-Z)")
			c.signal(syscall.SIGCONT)
		case syscall.SIGTTIN, syscall.SIGTTOU:
			c.say("the command was stopped because it needs the terminal: run fenlock in the foreground, with the terminal as its input")
		}
	}
}

// reap reaps what has ended, and reports whether there are children left. A process
// that adopts orphans has none if, and only if, all that it has ever started have ended.
func reap() (left bool) {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR, pid > 0:
		default:
			return err == nil
		}
	}
}

// signal sends a signal to the whole process group, if anybody is left of it.
func (c *child) signal(sig syscall.Signal) error { return syscall.Kill(-c.pid, sig) }

// stop sends a signal to the process group, and to what the command has started that
// moved elsewhere. An error says that the group has somebody who may not be signalled.
func (c *child) stop(sig syscall.Signal) error {
	err := c.signal(sig)
	for _, p := range descendants() {
		if group, _ := syscall.Getpgid(p.Pid); group != c.pid {
			syscall.Kill(p.Pid, sig)
		}
	}
	if err == syscall.ESRCH {
		err = nil
	}
	return err
}

// alive reports whether anybody is left. After the command was reaped the number of its
// group could in theory be given to a new one; systems count all the way round
// before they do, which takes longer than the short time in which this is called.
func (c *child) alive() bool {
	if left := reap(); adopts {
		return left
	}
	return syscall.Kill(-c.pid, 0) != syscall.ESRCH
}

// survivors are those who could not be ended.
func (c *child) survivors() []process {
	if !c.alive() {
		return nil
	}
	if all := descendants(); len(all) > 0 {
		return all
	}
	return []process{{Pid: c.pid, Name: "its group"}}
}
