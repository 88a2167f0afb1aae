//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"io"
	"syscall"
)

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
