//go:build (linux && !amd64) || darwin || freebsd

package caught

import (
	"os"
	"os/signal"
	"syscall"
)

func notify(c chan<- os.Signal, sig syscall.Signal) { signal.Notify(c, sig) }
