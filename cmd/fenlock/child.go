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
	pid      int // also the group's id
	terminal *terminal
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

// start runs the program at path with fenlock's stdin, stdout, stderr and
// environment, plus the variables in env. If fenlock has the terminal, the
// command gets it: a process of a background group is stopped when it reads.
// The caller calls finish, once, if there is no error.
func start(path string, args, env []string) (*child, error) {
	cmd := &exec.Cmd{
		Path: path, Args: args, Env: append(os.Environ(), env...),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	dieWithParent(cmd.SysProcAttr)
	terminal := ownTerminal()
	if terminal != nil {
		cmd.SysProcAttr.Foreground = true
		cmd.SysProcAttr.Ctty = terminal.fd
	}
	err := cmd.Start()
	if terminal != nil {
		// From now on fenlock is in the background, where writing messages and
		// taking the terminal back would stop it. Not earlier: the command would
		// inherit that the signal is ignored.
		signal.Ignore(syscall.SIGTTOU)
	}
	if err != nil {
		terminal.takeBack()
		return nil, startError(args[0], err)
	}
	c := &child{pid: cmd.Process.Pid, terminal: terminal}
	// Reaped by poll: Process.Wait would not tell of a command that was stopped.
	cmd.Process.Release()
	return c, nil
}

// finish takes the terminal back. After a command that was stopped it also
// puts back the terminal's modes, which a killed editor leaves behind.
func (c *child) finish(stopped bool) {
	if stopped {
		c.terminal.restoreModes()
	}
	c.terminal.takeBack()
}

// changes returns a channel that has a value when poll should be called.
func (c *child) changes() <-chan os.Signal {
	// One is enough, however many changes: poll sees them all.
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGCHLD)
	return changes
}

// poll reaps the command if it has ended, and says how. After that it must not be
// called again.
//
// A command that is stopped with Ctrl-Z is continued at once. The shell that
// should be told to go on knows fenlock only; if fenlock were stopped as well,
// nobody would extend the lock.
func (c *child) poll() (how syscall.WaitStatus, ended bool) {
	for {
		pid, err := syscall.Wait4(c.pid, &how, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			// Nobody else reaps our children.
			panic("fenlock: wait4: " + err.Error())
		case pid == 0:
			return how, false
		case !how.Stopped():
			return how, true
		}
		switch how.StopSignal() {
		case syscall.SIGTSTP:
			say("the command goes on: nobody would extend the lock of a job that is stopped (Ctrl-Z)")
			c.signal(syscall.SIGCONT)
		case syscall.SIGTTIN, syscall.SIGTTOU:
			say("the command was stopped because it needs the terminal: run fenlock in the foreground, with the terminal as its input")
		}
	}
}

// pass gives a signal that fenlock got to the command.
func (c *child) pass(sig syscall.Signal) {
	switch sig {
	case syscall.SIGTSTP:
		say("not stopped (Ctrl-Z): nobody would extend the lock")
		return
	case syscall.SIGCONT:
		c.terminal.give(c.pid) // "fg" gave it to fenlock
	}
	c.signal(sig)
}

// signal sends a signal to the whole process group, if anybody is left of it.
func (c *child) signal(sig syscall.Signal) { syscall.Kill(-c.pid, sig) }

// groupAlive reports whether the group has a process. After the command was
// reaped its number could in theory be given to a new group; systems count all
// the way round before they do, which takes longer than the short time in which
// this is called.
func (c *child) groupAlive() bool { return syscall.Kill(-c.pid, 0) != syscall.ESRCH }
