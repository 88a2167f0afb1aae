//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/fenlock/fenlock"
)

// Exit statuses of fenlock itself. 64, 69, 75 and 78 are those of sysexits.h.
const (
	exitUsage         = 64  // EX_USAGE: nothing was sent to any node
	exitNoQuorum      = 69  // EX_UNAVAILABLE
	exitHeld          = 75  // EX_TEMPFAIL: try again later
	exitLost          = 76  // the lock was lost, and the command was stopped
	exitSlots         = 78  // EX_CONFIG: others go by another number of slots
	exitNotExecutable = 126 // as shells have it
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal's number
)

// exitError is an error that knows the exit status. An empty message was
// printed already, or there is nothing to say.
type exitError struct {
	status  int
	message string
	keep    bool // the lock is not to be released: processes go on under it
	again   bool // the lock was lost, and nothing goes on: a leader may re-enter the election
}

func (e *exitError) Error() string { return e.message }

func exitf(status int, format string, args ...any) error {
	return &exitError{status: status, message: fmt.Sprintf(format, args...)}
}

// lostf is the error of a lock that was lost before the command had ended, and of which
// nothing goes on.
func lostf(format string, args ...any) error {
	return &exitError{status: exitLost, message: fmt.Sprintf(format, args...), again: true}
}

// status prints an error and returns the exit status for it. An error that says
// nothing else is about the usage: cobra has its own for unknown commands.
func status(err error) int {
	if err == nil {
		return 0
	}
	var exit *exitError
	switch {
	case !errors.As(err, &exit):
		// Cobra's suggestions are for several lines.
		text, suggestions, _ := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
		sayError("%s%s (see fenlock --help)", text, didYouMean("", strings.Fields(suggestions)))
		return exitUsage
	case exit.message != "":
		sayError("%s", exit.message)
	}
	return exit.status
}

// isUsage reports whether the library refused an argument.
func isUsage(err error) bool { return errors.Is(err, fenlock.ErrInvalid) }

// flagNames are the library's words for what are flags here.
var flagNames = strings.NewReplacer(
	fenlock.ErrInvalid.Error()+": ", "",
	"Config.TTL", "--ttl", "Config.MaxTTL", "--max-ttl", "MaxTTL", "--max-ttl", "Config.MaxHold", "--max-hold",
	"Config.Label", "--label", "Config.NewServers", "--new-servers", "Config.Nodes", "--node",
)

func usageError(err error) error { return exitf(exitUsage, "%s", flagNames.Replace(err.Error())) }

// printed is the standard output of the subcommands that print what they found. What was not
// written was not said: a status of 0 would be a lie to the reader of a file.
type printed struct {
	w   io.Writer
	err error // the first
}

// Write implements io.Writer.
func (p *printed) Write(text []byte) (int, error) {
	catchPipe()
	n, err := p.w.Write(text)
	if p.err == nil {
		p.err = err
	}
	return n, err
}

// cannotPrint is the error of a program whose standard output is gone. Where there is no reader any
// more (fenlock ls | head -1), it ends as other programs do, by SIGPIPE, and says nothing.
func cannotPrint(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return &exitError{status: exitSignal + int(syscall.SIGPIPE)}
	}
	return exitf(exitNoQuorum, "cannot print: %v", err)
}
