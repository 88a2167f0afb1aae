//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/execvp"
)

// find returns an error, with the status of a shell, if there is no such command. The watchdog
// looks for it again when it starts it; this is before the lock is asked for. So a mistyped command
// does not wait, and a machine without the command does not take another one's turn.
func find(command string) error {
	if command == "" {
		return exitf(exitNotFound, "the command is empty")
	}
	environment := os.Environ()
	var denied error
	for _, file := range execvp.Files(command, execvp.Path(environment)) {
		_, err := exec.LookPath(file)
		if err == nil {
			return nil
		}
		if denied == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			denied = startError(file, err)
		}
	}
	switch {
	case denied != nil:
		return denied
	case strings.Contains(command, "/"):
		return startError(command, fs.ErrNotExist)
	case !slices.ContainsFunc(environment, func(entry string) bool { return strings.HasPrefix(entry, "PATH=") }):
		return exitf(exitNotFound, "%s: command not found in %s: PATH is not set", command, execvp.DefaultPath)
	}
	return exitf(exitNotFound, "%s: command not found", command)
}

// startError turns the error of a program that cannot be run into one with the status of a shell.
// That is 127 if it (or its interpreter) is not there, else 126.
func startError(command string, err error) error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exitf(exitNotFound, "%s: not found (if it is a script: the program of its first line)", command)
	case errors.Is(err, syscall.ENOEXEC):
		return exitf(exitNotExecutable, "%s: no script, and no program for this kind of machine", command)
	case errors.Is(err, fs.ErrPermission):
		return exitf(exitNotExecutable, "%s is not executable: permission denied", command)
	case errors.As(err, &errno):
		return exitf(exitNotExecutable, "%s: %v", command, errno)
	}
	return exitf(exitNotExecutable, "%s: %v", command, err)
}
