//go:build linux || darwin || freebsd

package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The flags of flock(1) work too. Those that mean the same are flags of run (-n, -w, -E, -c). Those
// without an effect are accepted here. For the others, an error says why there is none.

// registerFlock adds the flags of flock that are accepted and ignored.
func registerFlock(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolP("exclusive", "x", false, "a lock is exclusive without --shared, with or without this")
	// flock's lock is a descriptor, which what the command leaves in the background has
	// as well, unless it is closed before.
	f.BoolP("close", "o", false, "what the command leaves in the background has no lock, with or without this")
	for _, name := range []string{"exclusive", "close"} {
		f.MarkHidden(name)
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
			if why := noFlock[unknown.GetSpecifiedName()]; why != "" {
				return exitf(exitUsage, "%v: %s (see %s --help)", err, why, cmd.CommandPath())
			}
		}
		return flagError(cmd, err)
	})
}

// noFlock says why there is no such flag, or what it is called here.
var noFlock = map[string]string{
	"u": noUnlock, "unlock": noUnlock,
	"F": noFork, "no-fork": noFork,
	"c": lateCommand, "command": lateCommand,
	"e":        "a lock is exclusive without --shared",
	"nb":       "it is --no-wait, or -n",
	"nonblock": "it is --no-wait, or -n",
	"timeout":  "it is --wait, or -w",
}

const (
	noUnlock    = "a lock is released when its command has ended, or its process"
	noFork      = "fenlock stays beside the command, to extend the lock"
	lateCommand = "it goes after NAME: fenlock run NAME -c 'COMMAND'"
)

// shellCommand returns how the user's shell is told to run a text, as flock does it.
func shellCommand(text string) []string {
	return []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh"), "-c", text}
}

// waitValue is the value of --wait: a time such as 1m30s or, as flock has it, a number of
// seconds.
type waitValue struct{ *time.Duration }

// Set implements pflag.Value.
func (w waitValue) Set(text string) error {
	seconds := ""
	if strings.Trim(text, "+-.0123456789") == "" {
		seconds = "s"
	}
	d, err := time.ParseDuration(text + seconds)
	if err != nil {
		return fmt.Errorf("neither a time, such as 90s or 1m30s, nor a number of seconds")
	}
	*w.Duration = d
	return nil
}

// String implements pflag.Value.
func (w waitValue) String() string {
	// The zero value is asked, too.
	return cmp.Or(w.Duration, new(time.Duration)).String()
}

// Type implements pflag.Value.
func (waitValue) Type() string { return "duration" }
