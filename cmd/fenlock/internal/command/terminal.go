//go:build linux || darwin || freebsd

package command

import (
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal on stdin. A nil *terminal is one that
// fenlock does not have; its methods do nothing.
type terminal struct {
	fd    int
	modes *term.State
}

// ownTerminal returns the terminal on stdin if fenlock is in its foreground,
// otherwise nil: a background job must not take it away from the shell.
func ownTerminal() *terminal {
	const stdin = 0
	// Fails if stdin is no terminal, and if it is not the controlling one.
	group, err := unix.IoctlGetInt(stdin, unix.TIOCGPGRP)
	if err != nil || int32(group) != int32(unix.Getpgrp()) {
		return nil
	}
	modes, err := term.GetState(stdin)
	if err != nil {
		return nil
	}
	return &terminal{fd: stdin, modes: modes}
}

// give puts a process group into the foreground, if fenlock is there.
func (t *terminal) give(group int) {
	if t == nil {
		return
	}
	if now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && int32(now) == int32(unix.Getpgrp()) {
		unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
	}
}

// takeBack puts fenlock's own group into the foreground. SIGTTOU must be
// ignored, since fenlock is in the background until then.
func (t *terminal) takeBack() {
	if t != nil {
		unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, unix.Getpgrp())
	}
}

// restoreModes undoes what a command changed: echo, line editing. SIGTTOU must
// be ignored.
func (t *terminal) restoreModes() {
	if t != nil {
		term.Restore(t.fd, t.modes)
	}
}
