//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"syscall"
)

// leadAgain takes one turn after the other, while each ends by the loss of the lock. A turn
// lasts for a third of a TTL at least before that can be known, so this does not spin.
func (o *runOptions) leadAgain(turn func() error) error {
	for {
		err := turn()
		var exit *exitError
		if !errors.As(err, &exit) || !exit.again || o.unwanted {
			return err
		}
		say("no longer the leader, and in the election again: %s", exit.message)
	}
}

// withoutCommand reports whether a signal is about a command that runs. Such a signal does not end
// the wait of a candidate that leads in turns. Ctrl-Z, which is caught since the turn before, stops
// fenlock as it would have then.
func withoutCommand(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGTSTP:
		stopJob()
	case syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGUSR1, syscall.SIGUSR2:
	default:
		return false
	}
	return true
}
