//go:build linux || darwin || freebsd

package command

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/spf13/cobra"
)

// runOptions are the flags of run.
type runOptions struct {
	nodes      nodeFlags
	ttl        time.Duration
	maxTTL     time.Duration
	maxHold    time.Duration // 0: unbounded
	atLeast    time.Duration // 0: no longer than the command runs
	wait       time.Duration // 0: no attempt but the first, if bounded
	waitSet    bool          // --wait was given
	noWait     bool
	lead       bool // again after a loss
	shared     bool // with others who want that too
	slots      int  // 0: it is one lock
	heldStatus int
	label      string
	verbose    bool
	passNodes  bool
	newServers bool
	metrics    metricsOptions
	broken     complaints
	spare      *spare
	byTime     bool             // the lease ends by time, whatever the nodes could do
	alive      *os.File         // what the lock is bound to, nil if it is a lease by time
	slot       int              // which of the slots was taken
	ignored    []syscall.Signal // when fenlock was started, and so by the command
	identity   identities
	kept       time.Time     // until when the lock stays, whatever happens; a moment later
	waited     time.Duration // of the time of --wait, while the nodes were opened
	// What was said of this wait: that the lock is held, that nodes are missing.
	waitSaid, nodesSaid bool
	unwanted            bool // a signal has asked the command to end
}

// register adds the flags to the command, in the order of its help.
func (o *runOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.SetInterspersed(false) // what follows NAME is the command's
	o.nodes.register(cmd)
	f.VarP(waitValue{&o.wait}, "wait", "w",
		"give up after this `time`, or number of seconds (default: wait without limit)")
	f.Lookup("wait").DefValue = "0" // which the help leaves out
	f.BoolVarP(&o.noWait, "no-wait", "n", false, "give up at once if the lock is held")
	f.IntVarP(&o.heldStatus, "conflict-exit-code", "E", exitHeld, "exit `status` if the lock is held or the wait ran out")
	f.DurationVar(&o.ttl, "ttl", fenlock.DefaultTTL, "`time` that the lock stays taken if this machine dies")
	f.DurationVar(&o.maxHold, "max-hold", 0, "stop the command after this `time` (default: no limit)")
	f.DurationVar(&o.atLeast, "at-least", 0,
		"keep the lock for at least this `time`, also when the command has ended, or fenlock was killed (at most --max-ttl)")
	f.BoolVar(&o.lead, "lead", false,
		"run the command while this process leads: start it again, in its turn, if the lock was lost")
	f.BoolVarP(&o.shared, "shared", "s", false, "share the lock with others that say so; those that do not have it alone")
	f.IntVar(&o.slots, "slots", 0,
		"take one of this `number` of slots: so many commands run at a time (all clients say the same number)")
	f.DurationVar(&o.maxTTL, "max-ttl", fenlock.DefaultMaxTTL,
		"longest --ttl of any client, and the `time` that a restarted server stays out; the same for all clients")
	f.BoolVar(&o.newServers, "new-servers", false,
		"none of the servers was ever used: they need not wait for --max-ttl; say it once, by hand")
	f.StringVar(&o.label, "label", "", "`text` that tells others who has the lock, beside host/process id")
	f.BoolVar(&o.passNodes, "pass-nodes", false, "let the command have FENLOCK_NODES although there is a password in it")
	f.BoolVar(&o.verbose, "verbose", false, "say on stderr what happens to the lock")
	o.metrics.register(f)
	byHand(cmd, "new-servers")
	registerFlock(cmd)
}

const runForm = "fenlock run [flags] NAME -- COMMAND [ARG...]"

// checkRunArgs insists on the "--" or "-c": without it, a flag that was put after the
// name would silently be the command's.
func checkRunArgs(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return exitf(exitUsage, "no NAME and no COMMAND: %s", runForm)
	case len(args) > 1 && isShell(args[1]):
		if len(args) != 3 {
			return exitf(exitUsage, "%s takes one COMMAND for the shell, not %d: fenlock run [flags] NAME -c 'COMMAND'", args[1],
				len(args)-2)
		}
		return nil
	case len(args) > 1 && args[1] != "--" && strings.HasPrefix(args[1], "-"):
		return exitf(exitUsage, "%s comes after NAME: flags go before it: %s", args[1], runForm)
	case len(args) > 1 && args[1] != "--":
		return exitf(exitUsage, "expected -- after NAME %q, not %q: %s", args[0], args[1], runForm)
	case len(args) < 3:
		return exitf(exitUsage, "no COMMAND: %s", runForm)
	}
	return nil
}

// isShell reports whether the argument after NAME says that the shell is to run the next.
func isShell(arg string) bool { return arg == "-c" || arg == "--command" }

// commandOf returns the command of arguments that were checked.
func commandOf(args []string) []string {
	if isShell(args[1]) {
		return shellCommand(args[2])
	}
	return args[2:]
}

// check refuses what the library cannot know about.
func (o *runOptions) check(name string) error {
	switch {
	case o.waitSet && o.noWait:
		return exitf(exitUsage, "--wait and --no-wait exclude each other")
	case quiet && o.verbose:
		return exitf(exitUsage, "--quiet and --verbose exclude each other")
	case o.heldStatus < 0 || o.heldStatus > 255:
		return exitf(exitUsage, "--conflict-exit-code is %d, it must be 0 to 255", o.heldStatus)
	case o.lead && o.noWait:
		return exitf(exitUsage, "--lead waits for its turn, again and again: it and --no-wait exclude each other")
	case o.lead && o.waitSet:
		return exitf(exitUsage, "--lead waits for its turn, again and again: it and --wait exclude each other")
	case o.lead && o.maxHold != 0:
		return exitf(exitUsage, "--lead has no limit of time: it and --max-hold exclude each other")
	case o.lead && o.atLeast != 0:
		return exitf(exitUsage, "--lead keeps the lock while the command runs: it and --at-least exclude each other")
	case o.lead && o.shared:
		return exitf(exitUsage, "--lead leads alone: it and --shared exclude each other")
	case o.lead && o.slots != 0:
		return exitf(exitUsage, "--lead leads alone: it and --slots exclude each other")
	case o.shared && o.slots != 0:
		return exitf(exitUsage, "--shared has any number at a time: it and --slots exclude each other")
	case o.slots < 0 || o.slots > fenlock.MaxSlots:
		return exitf(exitUsage, "--slots is %d, it must be 1 to %d", o.slots, fenlock.MaxSlots)
	case o.wait < 0:
		return exitf(exitUsage, "--wait is %v, it must not be negative", o.wait)
	case o.maxHold < 0:
		return exitf(exitUsage, "--max-hold is %v, it must not be negative (0 is no limit)", o.maxHold)
	case o.atLeast < 0:
		return exitf(exitUsage, "--at-least is %v, it must not be negative", o.atLeast)
	case o.atLeast > o.maxTTL:
		return exitf(exitUsage, "--at-least is %v, longer than --max-ttl, %v, which is the same for all clients", o.atLeast,
			o.maxTTL)
	case o.maxHold > 0 && o.atLeast > o.maxHold:
		return exitf(exitUsage, "--at-least is %v, longer than --max-hold, %v", o.atLeast, o.maxHold)
	// To the library these mean the default.
	case o.ttl <= 0:
		return exitf(exitUsage, "--ttl is %v, at least %v is needed", o.ttl, fenlock.MinTTL)
	case o.maxTTL <= 0:
		return exitf(exitUsage, "--max-ttl is %v, it must be at least --ttl, %v", o.maxTTL, o.ttl)
	}
	if err := fenlock.CheckName(name); err != nil {
		return usageError(err)
	}
	return o.nodes.check()
}

// bounded reports whether the wait has a limit.
func (o *runOptions) bounded() bool { return o.waitSet || o.noWait }

// explain says something with --verbose only.
func (o *runOptions) explain(format string, args ...any) {
	if o.verbose {
		say(format, args...)
	}
}

// fullLabel returns what others see as the holder: the text of --label, and whose it is, as long
// as there is room for both.
func (o *runOptions) fullLabel() string {
	full := fmt.Sprintf("%s (%s)", o.label, fenlock.DefaultLabel())
	if o.label == "" || fenlock.CheckName(o.label) != nil || len(full) > fenlock.MaxLabelLength {
		return o.label // what is no text, the library refuses
	}
	return full
}
