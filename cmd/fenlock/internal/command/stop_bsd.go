//go:build darwin || freebsd

package command

import (
	"os"
	"syscall"
)

// stopJob stops this process.
func stopJob() { syscall.Kill(os.Getpid(), syscall.SIGSTOP) }
