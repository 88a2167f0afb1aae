//go:build linux || darwin || freebsd

package command

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/caught"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/inherited"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/watchdog"
	"github.com/spf13/cobra"
)

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:               "run [flags] NAME -- COMMAND [ARG...] | NAME -c COMMAND",
		Short:             "Run a command while holding a lock",
		Long:              runHelp,
		Example:           runExamples,
		Args:              checkRunArgs,
		ValidArgsFunction: completeNames(&o.nodes),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.waitSet = cmd.Flags().Changed("wait")
			return o.run(args[0], commandOf(args))
		},
	}
	o.register(cmd)
	return cmd
}

// run takes the lock, runs the command and returns an error with its status.
func (o *runOptions) run(name string, command []string) error {
	if err := o.check(name); err != nil {
		return err
	}
	if err := find(command[0]); err != nil {
		return err
	}
	o.ignored = inherited.Ignored()
	watchdog.Ignore(o.ignored)
	observer, end, err := o.metrics.serve(name)
	if err != nil {
		return err
	}
	defer end()
	// Before nodes are opened: what a watchdog has open, its command has.
	if !o.bindable() {
		o.spare = newSpare(commandEnvironment(o.passNodes), o.ttl)
		defer o.spare.drop()
	}
	locker, err := o.open(name, observer)
	if err != nil {
		return err
	}
	// Waits for what cleans up: a lease that a late answer still brought.
	defer locker.Close()

	signals := make(chan os.Signal, 64)
	caught.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1,
		syscall.SIGUSR2)
	turn := func() error { return o.turn(locker, name, command, signals) }
	if o.lead {
		return o.leadAgain(turn)
	}
	return turn()
}

// turn waits for the lock, and runs the command under it.
func (o *runOptions) turn(locker *fenlock.Locker, name string, command []string, signals chan os.Signal) error {
	lock, err := o.acquireOrSignal(locker, name, signals)
	if err != nil {
		return err
	}
	if o.lead {
		say("leading %q, with term %d", name, lock.Token())
	} else {
		o.explain("%q is taken, with token %d", lock.Name(), lock.Token())
	}
	// Only now: while fenlock waits, it can be stopped with Ctrl-Z and continued.
	caught.Notify(signals, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH)
	err = o.runHeld(lock, command, signals)
	return o.release(lock, err)
}

// open makes the Locker, which owns the nodes. Other observers are told too.
func (o *runOptions) open(name string, also fenlock.Observer) (*fenlock.Locker, error) {
	nodes, err := o.openNodes()
	if err != nil {
		return nil, err
	}
	if err := o.bind(nodes); err != nil {
		closeAll(nodes)
		return nil, exitf(exitNoQuorum, "%v", err)
	}
	o.identity = identifyAll(nodes, o.nodes.prefix, name, o.slots)
	if pid := o.identity.around(); pid != 0 && !o.bounded() {
		closeAll(nodes)
		return nil, exitf(exitUsage, "%q is held by the fenlock run around this command (process %d), which ends after it: to wait would be to wait for ever", name, pid)
	}
	maxHold := o.maxHold
	if maxHold == 0 {
		maxHold = -1
	}
	locker, err := fenlock.New(fenlock.Config{
		Nodes: nodes, TTL: o.ttl, MaxTTL: o.maxTTL, MaxHold: maxHold, Label: o.fullLabel(), NewServers: o.newServers,
		NodeTimeout: nodeTimeout(nodes, o.ttl),
		Logger:      slog.New(lineHandler{said: new(sync.Map)}), Observer: fenlock.JoinObservers(o.observer(), also),
	})
	if err != nil {
		closeAll(nodes)
		return nil, usageError(err)
	}
	return locker, nil
}

// openNodes opens the nodes within the time of --wait, or of a lease where nothing is waited for.
func (o *runOptions) openNodes() ([]fenlock.Node, error) {
	begun, ctx := time.Now(), context.Background()
	if o.bounded() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cmp.Or(o.wait, o.ttl))
		defer cancel()
	}
	nodes, err := o.nodes.open(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, o.conflict("gave up: %v", err)
	}
	o.waited = time.Since(begun)
	return nodes, err
}

// leadAgain takes one turn after the other, while each ends by the loss of the lock. A turn
// lasts for a third of a TTL at least before that can be known, so this does not spin.
func (o *runOptions) leadAgain(turn func() error) error {
	for {
		err := turn()
		exit, is := errors.AsType[*exitError](err)
		if !is || !exit.again || o.unwanted {
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
