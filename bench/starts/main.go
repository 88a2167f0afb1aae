//go:build linux || darwin || freebsd

// Command starts is the floor of fenlock run as it is. It starts itself, as fenlock does to have a
// watchdog, and that starts a command and waits for it. It takes no lock, opens no file and imports
// next to nothing. Only who starts the two beside each other can take less.
package main

import (
	"os"
	"syscall"
)

// again is what it is started as the second time.
const again = "starts-again"

func main() {
	if len(os.Args) < 2 {
		os.Stderr.WriteString("usage: starts PROGRAM [ARG...]\n")
		os.Exit(64)
	}
	path, args := os.Args[1], os.Args[1:]
	if os.Args[0] != again {
		own, err := os.Executable()
		if err != nil {
			os.Stderr.WriteString("starts: " + err.Error() + "\n")
			os.Exit(69)
		}
		path, args = own, append([]string{again}, os.Args[1:]...)
	}
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		os.Stderr.WriteString("starts: " + path + ": " + err.Error() + "\n")
		os.Exit(126)
	}
	for {
		var how syscall.WaitStatus
		_, err := syscall.Wait4(pid, &how, 0, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			os.Exit(69)
		}
		os.Exit(how.ExitStatus())
	}
}
