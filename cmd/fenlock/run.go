//go:build linux || darwin || freebsd

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/spf13/cobra"
)

const runHelp = `Run a command while holding the lock NAME, and stop it if the lock is lost.

fenlock takes the lock, runs the command, extends the lock for as long as the
command runs, and releases it when the command has ended. If somebody else has the
lock, fenlock stands in line for it: first come, first served, among all machines.
With --verbose it says who has the lock and how many are ahead.

Where the lock is
  --node URL, once for each node, or FENLOCK_NODES, their URLs separated by commas:
    valkey://10.0.0.1:6379   redis://  the same; valkeys:// and rediss:// with TLS
    unix:///run/valkey.sock  sqlite:///var/lib/app/locks.db
  Three or five servers that know nothing of each other are usual: the lock works
  while a majority of them answers. All clients must name the same ones. A URL with
  a password belongs in FENLOCK_NODES: everybody can read the list of processes.
  With neither, the lock is a file of yours, for your processes on this machine
  (a FENLOCK_NODES that is set but empty is an error):
  $XDG_STATE_HOME/fenlock/fenlock.db, or in ~/.local/state/fenlock.

What the command gets
  FENLOCK_NAME, FENLOCK_TOKEN and the environment of fenlock. The token grows with
  each holder: pass it along with every write, and let the other side refuse a token
  that is smaller than one it has seen. It stops even a holder that was paused.
  Signals to fenlock (HUP, INT, QUIT, TERM, USR1, USR2) go to the command and what
  it started, all in one process group. What it leaves running in the background
  when it ends goes on, without the lock.

If the lock cannot be extended
  When a third of the TTL is left, and likewise before --max-hold is over, the
  process group has SIGTERM; when a tenth is left, SIGKILL. So it is gone before
  anybody else can get the lock. Processes that left the group (daemons, jobs of an
  interactive shell) are out of reach. Ctrl-Z does not stop the command: nobody would
  extend the lock.

Exit status
  that of the command; 128 plus the number of the signal that ended it
  64   wrong usage; nothing was sent to any node
  69   too few nodes answer
  75   somebody else has the lock, or the wait ran out (-E changes it)
  76   the lock was lost or held for --max-hold, and the command was stopped
  126  the command cannot be executed      127  there is no such command`

const runExamples = `  fenlock run nightly-report -- ./report.sh
  fenlock run --no-wait -E 0 backup -- backup /srv     # cron: once at a time, else skip
  fenlock run --wait 1m --ttl 30s deploy/web -- sh -c './deploy --token $FENLOCK_TOKEN'
  FENLOCK_NODES=valkey://10.0.0.1,valkey://10.0.0.2,valkey://10.0.0.3 \
      fenlock run --verbose orders/42 -- ./settle 42`

// runOptions are the flags of run.
type runOptions struct {
	nodes      nodeFlags
	ttl        time.Duration
	maxTTL     time.Duration
	maxHold    time.Duration // 0: unbounded
	wait       time.Duration // 0: no attempt but the first, if bounded
	bounded    bool          // --wait or --no-wait was given
	noWait     bool
	heldStatus int
	label      string
	verbose    bool
}

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:     "run [flags] NAME -- COMMAND [ARG...]",
		Short:   "Run a command while holding a lock",
		Long:    runHelp,
		Example: runExamples,
		Args:    checkRunArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.nodes.prefixSet = cmd.Flags().Changed("prefix")
			if o.bounded = cmd.Flags().Changed("wait"); o.bounded && o.noWait {
				return exitf(exitUsage, "--wait and --no-wait exclude each other")
			}
			o.bounded = o.bounded || o.noWait
			return o.run(args[0], args[2:])
		},
		DisableFlagsInUseLine: true,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.SetInterspersed(false) // what follows NAME is the command's
	f.StringArrayVar(&o.nodes.urls, "node", nil, "`URL` of a node; repeat it for each node of the group")
	f.DurationVar(&o.wait, "wait", 0, "give up after this `time` (default: wait without limit)")
	f.BoolVar(&o.noWait, "no-wait", false, "give up at once if the lock is held")
	f.IntVarP(&o.heldStatus, "conflict-exit-code", "E", exitHeld, "exit `status` if the lock is held or the wait ran out")
	f.DurationVar(&o.ttl, "ttl", fenlock.DefaultTTL, "`time` that the lock stays taken if this machine dies")
	f.DurationVar(&o.maxHold, "max-hold", fenlock.DefaultMaxHold, "stop the command after this `time`; 0 is no limit")
	f.DurationVar(&o.maxTTL, "max-ttl", fenlock.DefaultMaxTTL, "longest --ttl of any client, and the `time` that a restarted server stays out; the same for all clients")
	f.StringVar(&o.nodes.prefix, "prefix", valkeynode.DefaultPrefix, "`text` before the name in Valkey and Redis keys; '' for what other Redlock clients use")
	f.StringVar(&o.label, "label", "", "`text` that tells others who has the lock (default: host/process id)")
	f.BoolVar(&o.verbose, "verbose", false, "say on stderr what happens to the lock")
	return cmd
}

// checkRunArgs insists on the "--": without it, a flag that was put after the
// name would silently be the command's.
func checkRunArgs(_ *cobra.Command, args []string) error {
	const form = "fenlock run [flags] NAME -- COMMAND [ARG...]"
	switch {
	case len(args) == 0:
		return exitf(exitUsage, "no NAME and no COMMAND: %s", form)
	case len(args) > 1 && args[1] != "--" && strings.HasPrefix(args[1], "-"):
		return exitf(exitUsage, "%s comes after NAME: flags go before it: %s", args[1], form)
	case len(args) > 1 && args[1] != "--":
		return exitf(exitUsage, "expected -- after NAME %q, not %q: %s", args[0], args[1], form)
	case len(args) < 3:
		return exitf(exitUsage, "no COMMAND: %s", form)
	}
	return nil
}

// check refuses what the library cannot know about.
func (o *runOptions) check(name string) error {
	switch {
	case o.heldStatus < 0 || o.heldStatus > 255:
		return exitf(exitUsage, "-E is %d, it must be 0 to 255", o.heldStatus)
	case o.wait < 0:
		return exitf(exitUsage, "--wait is %v, it must not be negative", o.wait)
	case o.maxHold < 0:
		return exitf(exitUsage, "--max-hold is %v, it must not be negative (0 is no limit)", o.maxHold)
	// To the library these mean the default.
	case o.ttl <= 0:
		return exitf(exitUsage, "--ttl is %v, at least %v is needed", o.ttl, fenlock.MinTTL)
	case o.maxTTL <= 0:
		return exitf(exitUsage, "--max-ttl is %v, it must be at least --ttl, %v", o.maxTTL, o.ttl)
	}
	if err := fenlock.CheckName(name); err != nil {
		return usageError(err)
	}
	return nil
}

// flagNames are the library's words for what are flags here.
var flagNames = strings.NewReplacer(
	fenlock.ErrInvalid.Error()+": ", "",
	"Config.TTL", "--ttl", "Config.MaxTTL", "--max-ttl", "MaxTTL", "--max-ttl", "Config.MaxHold", "--max-hold",
	"Config.Label", "--label", "Config.Nodes", "--node",
)

func usageError(err error) error { return exitf(exitUsage, "%s", flagNames.Replace(err.Error())) }

// run takes the lock, runs the command and returns an error with its status.
func (o *runOptions) run(name string, command []string) error {
	if err := o.check(name); err != nil {
		return err
	}
	path, err := find(command[0])
	if err != nil {
		return err
	}
	locker, err := o.open()
	if err != nil {
		return err
	}
	// Waits for what cleans up: a lease that a late answer still brought.
	defer locker.Close()

	signals := make(chan os.Signal, 64)
	notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	lock, err := o.acquireOrSignal(locker, name, signals)
	if err != nil {
		return err
	}
	o.explain("%q is taken, with token %d", name, lock.Token())
	// Only now: while fenlock waits, it can be stopped with Ctrl-Z and continued.
	notify(signals, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH)
	err = o.runHeld(lock, path, command, signals)
	return o.release(lock, err)
}

// notify is signal.Notify for the signals that are not ignored: what was started
// with nohup, or in the background of a script, stays so, and so does the command.
func notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}

func (o *runOptions) open() (*fenlock.Locker, error) {
	nodes, err := o.nodes.open()
	if err != nil {
		return nil, err
	}
	maxHold := o.maxHold
	if maxHold == 0 {
		maxHold = -1
	}
	locker, err := fenlock.New(fenlock.Config{
		Nodes: nodes, TTL: o.ttl, MaxTTL: o.maxTTL, MaxHold: maxHold, Label: o.label,
		Logger: slog.New(lineHandler{}), Observer: o.observer(),
	})
	if err != nil {
		closeAll(nodes)
		return nil, usageError(err)
	}
	return locker, nil
}

// runHeld runs the command to its end. The error has its status, if that is not 0.
func (o *runOptions) runHeld(lock *fenlock.Lock, path string, command []string, signals <-chan os.Signal) error {
	limit := o.limit(lock)
	// fenlock may have been paused since the lock was taken. A command that would
	// be stopped at once is not started.
	if lock.Remaining() <= o.ttl/termShare {
		return exitf(exitLost, "the lock on %q could not be kept: the command was not started", lock.Name())
	}
	child, err := start(path, command, []string{
		"FENLOCK_NAME=" + lock.Name(),
		fmt.Sprintf("FENLOCK_TOKEN=%d", lock.Token()),
	})
	if err != nil {
		return err
	}
	s := supervisor{lock: lock, ttl: o.ttl, child: child, signals: signals}
	s.report = func(do step, left time.Duration) {
		left = max(left, 0).Round(time.Millisecond)
		switch do {
		case leave:
			if s.end < limit {
				o.explain("the extension of %q is overdue: %v are left", lock.Name(), left)
			}
		case terminate:
			say("stopping the command (SIGTERM): %s, %v are left", stopReason(lock, s.end, limit), left)
		case kill:
			say("killing the command (SIGKILL): %s, %v are left", stopReason(lock, s.end, limit), left)
		}
	}
	how, stopped := s.run()
	child.finish(stopped)
	switch {
	case stopped:
		return exitf(exitLost, "the lock on %q could not be kept: the command was stopped", lock.Name())
	case how.Signaled():
		return &exitError{status: exitSignal + int(how.Signal())}
	case how.ExitStatus() != 0:
		return &exitError{status: how.ExitStatus()}
	}
	return nil
}

// limit returns when the lock has been held for --max-hold, by clock.Now.
// It serves the message only: the validity ends there as well.
func (o *runOptions) limit(lock *fenlock.Lock) time.Duration {
	if o.maxHold == 0 {
		return 1<<63 - 1
	}
	// What is left of the first TTL tells when it began.
	return clock.Now() + lock.Remaining() - o.ttl + o.maxHold
}

// stopReason says why the command has to end. end is the end of the validity.
func stopReason(lock *fenlock.Lock, end, limit time.Duration) string {
	switch {
	case lock.Context().Err() != nil:
		return context.Cause(lock.Context()).Error()
	case end >= limit:
		return fmt.Sprintf("%q was held for nearly --max-hold", lock.Name())
	}
	return fmt.Sprintf("the lock on %q cannot be extended", lock.Name())
}

// release gives the lock back, and returns err, unless the lock was lost before
// the command had ended by itself: then some of its work was done without.
func (o *runOptions) release(lock *fenlock.Lock, err error) error {
	released := lock.Release(context.Background())
	var exit *exitError
	stopped := errors.As(err, &exit) && exit.status == exitLost
	switch {
	case stopped:
	case errors.Is(released, fenlock.ErrLost), errors.Is(released, fenlock.ErrMaxHold):
		return exitf(exitLost, "the command ended by itself, but %v", released)
	case released != nil:
		say("not released everywhere: %q is free after %v at most: %v", lock.Name(), o.ttl, released)
	default:
		o.explain("%q is released", lock.Name())
	}
	return err
}

// explain says something with --verbose only.
func (o *runOptions) explain(format string, args ...any) {
	if o.verbose {
		say(format, args...)
	}
}
