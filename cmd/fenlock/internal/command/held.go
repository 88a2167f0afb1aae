//go:build linux || darwin || freebsd

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/watchdog"
	"github.com/fenlock/fenlock/node/clock"
)

// runHeld runs the command to its end. The error has its status, if that is not 0.
func (o *runOptions) runHeld(lock *fenlock.Lock, command []string, signals <-chan os.Signal) error {
	limit := o.limit(lock)
	// fenlock may have been paused since the lock was taken. A command that would
	// be stopped at once is not started.
	within := lock.Remaining() - o.ttl/watchdog.TermShare
	if within <= 0 {
		return lostf("the lock on %q could not be kept: the command was not started", lock.Name())
	}
	env := commandEnvironment(o.passNodes)
	startBy := clock.Now() + within
	w, err := o.spare.take(), error(nil)
	switch {
	case o.alive != nil:
		w, err = watchBound(o.alive, min(within, startPatience), env)
	case w == nil:
		w, err = watch(min(within, startPatience), env)
	}
	if err != nil {
		return exitf(exitNotExecutable, "the watchdog of the command cannot be started: %v", err)
	}
	defer w.close()
	w.startBy = startBy
	env = append(env, nameVariable+"="+lock.Name(), fmt.Sprintf("%s=%d", tokenVariable, lock.Token()),
		o.identity.with(o.slot))
	if o.slots > 0 {
		env = append(env, fmt.Sprintf("%s=%d", slotVariable, o.slot))
	}
	env = (&exec.Cmd{Env: env}).Environ() // the last of each: a fenlock around this one has set the same
	job := watchdog.Job{Args: command, Env: env, Ignored: o.ignored, TTL: o.ttl}
	over, err := w.follow(lock, job, signals, func(r watchdog.Report) {
		left := fmt.Sprintf(", %v are left", max(r.Left, 0).Round(time.Millisecond))
		if o.alive != nil && r.Left > o.ttl {
			left = "" // it would have lasted as long as the command
		}
		why := func() string { return stopReason(lock, clock.Now()+r.Left, limit) }
		switch r.Do {
		case watchdog.Leave:
			if clock.Now()+r.Left < limit {
				o.explain("the extension of %q is overdue%s", lock.Name(), left)
			}
		case watchdog.Terminate:
			say("stopping the command (SIGTERM): %s%s", why(), left)
		case watchdog.Kill:
			say("killing the command (SIGKILL): %s%s", why(), left)
		}
		if r.Denied && r.Do != watchdog.Leave {
			say("the command cannot be signalled: it runs as another user")
		}
	})
	o.unwanted = w.unwanted
	if err != nil {
		return err
	}
	how := over.How
	switch {
	case len(over.Survivors) > 0:
		return exitf(exitLost, "the lock on %q could not be kept, and these could not be stopped: %v; a command that becomes another user needs a fenlock that runs as root (sudo fenlock run, not fenlock run sudo)", lock.Name(), over.Survivors)
	case over.Stopped:
		return lostf("the lock on %q could not be kept: the command was stopped", lock.Name())
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

// release gives the lock back, and returns err, unless the lock was lost before the command had
// ended by itself. Then some of its work was done without a lock.
func (o *runOptions) release(lock *fenlock.Lock, err error) error {
	exit, is := errors.AsType[*exitError](err)
	if is && exit.keep {
		return err
	}
	released := lock.Release(context.Background())
	switch {
	case is && exit.status == exitLost: // it was stopped
	case errors.Is(released, fenlock.ErrLost), errors.Is(released, fenlock.ErrMaxHold):
		return lostf("the command ended by itself, but %v", released)
	case released != nil && o.kept.After(time.Now()):
		say("%q may be free before the end of --at-least: %v", lock.Name(), released)
	case released == nil && o.kept.After(time.Now()):
		o.explain("%q stays taken until the end of --at-least", lock.Name())
	case released != nil && o.alive != nil:
		o.explain("the end of %q was not written, but it ends with fenlock: %v", lock.Name(), released)
	case released != nil:
		say("not released everywhere: %q is free after %v at most: %v", lock.Name(), o.ttl, released)
	default:
		o.explain("%q is released", lock.Name())
	}
	return err
}
