//go:build linux || darwin || freebsd

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

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
