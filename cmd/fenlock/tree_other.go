//go:build darwin || freebsd

package main

import (
	"os"
	"syscall"
)

// These systems are asked for no more than process groups: what left the command's
// group is out of reach. tree_linux.go has the comments.

const adopts = false

func adoptOrphans()          {}
func descendants() []process { return nil }
func nameProcess(string)     {}

func birth(pid int) (string, bool) { return "", syscall.Kill(pid, 0) != syscall.ESRCH }

func ownProgram() (string, error) { return os.Executable() }
