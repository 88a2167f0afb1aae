//go:build linux || darwin || freebsd

// Package inherited knows which signals this process was started with ignored, as nohup, env
// --ignore-signal, systemd and a shell's trap start one. exec keeps an ignored signal ignored, so
// that a program that only starts another passes that on. A Go program does so for the signals that
// its runtime leaves alone. These are SIGHUP and SIGINT if they were ignored, and those of the
// terminal's job control, SIGTSTP, SIGTTIN and SIGTTOU. All others are caught before the first line
// of the program runs, and what they were before cannot be told.
package inherited

import "syscall"

// signals is a set: N is the bit N-1, as in /proc/PID/status.
type signals uint64

const highest = 64 // the last signal of a set

func (s signals) has(sig syscall.Signal) bool { return s>>(sig-1)&1 == 1 }

// Ignored returns the signals that were ignored when this process was started. It has to be called
// once, before the program asks for a signal. SIGCHLD is never among them: a process that ignores
// it means its own children, and flock(1) does not pass it on either. Nor is SIGURG, which is
// ignored by default, and which Go's runtime needs.
//
// On macOS and FreeBSD it knows of SIGHUP and SIGINT only.
func Ignored() (all []syscall.Signal) {
	set := untouched()
	for sig := syscall.Signal(1); sig <= highest; sig++ {
		if set.has(sig) && sig != syscall.SIGURG {
			all = append(all, sig)
		}
	}
	return all
}
