//go:build linux || darwin || freebsd

package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// fenlock becomes fenlock-all for what it does not have itself. It is the same process, with the
// same arguments, environment and descriptors. Nothing was opened, printed or asked for in it
// before.

const (
	// allProgram is looked for beside this program, and nowhere else: a user that may put a file
	// there may replace this one as well.
	allProgram = "fenlock-all"
	module     = "github.com/fenlock/fenlock/cmd/fenlock"
	// handedVariable has the release of the fenlock that became this program. No command of ours
	// sees it.
	handedVariable = variablePrefix + "HANDED_OVER_BY"
)

// onlyAll marks a subcommand that only fenlock-all has.
var onlyAll = map[string]string{"program": allProgram}

// beyond returns what of a command this program does not have, "" if it has all of it. What is
// wrong with the usage is told by others. It opens no nodes.
func beyond(cmd *cobra.Command) string {
	switch flags := cmd.Flags(); {
	case extras != nil:
	case cmd.Annotations["program"] == allProgram:
		return cmd.CommandPath()
	case flags.Lookup("metrics") != nil && flags.Lookup("metrics").Value.String() != "":
		return "--metrics"
	case flags.Lookup("nodes-file") != nil:
		all, _ := nodesOf(flags).list()
		for _, one := range all {
			if engine, err := engineOf(one.url); err == nil && engine.open == nil {
				return "a lock on " + engine.name
			}
		}
	}
	return ""
}

// become becomes fenlock-all if the command needs that, and does not return then. The error says
// why it cannot.
func become(cmd *cobra.Command) error {
	what := beyond(cmd)
	if what == "" {
		return nil
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return exitf(exitNoQuorum, "%s needs the program %s, which is looked for beside this one: %v", what, allProgram, err)
	}
	program := filepath.Join(filepath.Dir(self), allProgram)
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		// A link to a program chooses the folder in which it is found. A user that makes a link must
		// not get rights by that.
		return exitf(exitNoQuorum, "%s needs the program %s, which fenlock does not become with another user's or "+
			"group's rights (setuid, setgid): start %[2]s itself", what, allProgram)
	}
	err = syscall.Exec(program, os.Args, append(os.Environ(), handedVariable+"="+release()))
	return exitf(exitNoQuorum, "%s needs the program %s, which cannot be run as %s (%v): %s", what, allProgram, program,
		err,
		remedy(cmd, published(version(), buildInfo().Settings)))
}

// remedy says how to get fenlock-all, of a version, or in a clone if that is empty.
func remedy(cmd *cobra.Command, version string) string {
	if version != "" {
		return "install both, with the package or the archive of " + version + ", or: go install " + module + "/...@" +
			version
	}
	return "in a clone, \"make build\" makes both, and instead of \"go run ./cmd/fenlock\" say \"go run ./cmd/fenlock/" +
		allProgram + strings.TrimPrefix(cmd.CommandPath(), "fenlock") + " ...\""
}

// checkHandedOver has fenlock-all refuse another release than its own: flags, help and messages of
// a command would be those of two programs. It removes what it was told by, which is not for other
// programs.
func checkHandedOver() error {
	from, handed := os.LookupEnv(handedVariable)
	os.Unsetenv(handedVariable)
	switch {
	case !handed:
		return nil
	case extras == nil:
		return exitf(exitNoQuorum, "%s beside fenlock is fenlock itself: install that of %s", allProgram, from)
	case from != release():
		return exitf(exitNoQuorum, "fenlock is %s, and %s beside it is %s: install both of one release, or in a clone: make build",
			from, allProgram, release())
	}
	return nil
}
