//go:build linux || darwin || freebsd

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/caught"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const holdHelp = `Take a lock for a program in any language, and hold it until standard input ends.

A program starts this command with pipes. It prints one JSON object per line:

  {"event":"held","name":"x","token":34,"deadline_ms":81234567,"left_ms":9950}
  {"event":"extended","token":34,"deadline_ms":81237901,"left_ms":9950}
  {"event":"lost","token":34,"reason":"..."}
  {"event":"released","token":34}

The program has the lock from "held" on, until the deadline of the newest line. The
deadline is a time of the boot clock (CLOCK_BOOTTIME on Linux), in milliseconds. The program
must compare that clock with the deadline before each write, because this command can be
killed or stopped. It closes the pipe to release the lock. If the program dies, the
kernel closes the pipe. A signal ends this command when the program has closed the pipe, or
at the deadline. docs/hold.md has the rules, and clients for Python and Node.js.

Exit status: 0 the lock was released; 75 it was not free (or standard input ended before it
was); 69 too few nodes; 76 the lock was lost; 64 wrong usage; 128 + signal.`

func holdCommand() *cobra.Command {
	h := hold{runOptions: runOptions{byTime: true}, signals: make(chan os.Signal, 8), extended: make(chan struct{}, 1)}
	cmd := &cobra.Command{
		Use:               "hold [flags] NAME",
		Short:             "Hold a lock for a program in any language",
		Long:              holdHelp,
		Example:           `  coproc fenlock hold nightly-report; read -r held <&${COPROC[0]}`,
		Args:              oneName("hold"),
		ValidArgsFunction: completeNames(&h.nodes),
		RunE: func(cmd *cobra.Command, args []string) error {
			h.waitSet = cmd.Flags().Changed("wait")
			return h.run(args[0])
		},
	}
	var run cobra.Command
	h.register(&run)
	h.nodes.register(cmd)
	cmd.Flags().SortFlags = false
	for _, name := range []string{"wait", "no-wait", "ttl", "max-hold", "shared", "slots", "max-ttl", "new-servers",
		"label", "verbose"} {
		cmd.Flags().AddFlag(run.Flags().Lookup(name))
	}
	cmd.Flags().Lookup("max-hold").Usage = "the lock is lost after this `time` (default: no limit)"
	return cmd
}

// hold holds a lock for the program at the other end of its pipes.
type hold struct {
	runOptions
	signals  chan os.Signal
	extended chan struct{} // has one if the lock was extended since the last line
	lines    chan holdLine
	failed   chan error    // lines cannot be printed
	deadline time.Duration // the latest that was told, by bootClock
	ended    bool          // it was told that the lock is lost
}

// inputEnded is among the signals when standard input has ended, which has no signal.
const inputEnded = syscall.Signal(0)

func (h *hold) run(name string) error {
	if err := h.check(name); err != nil {
		return err
	}
	caught.Notify(h.signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	if !inputOpen() {
		return noInput(name)
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		h.signals <- inputEnded
	}()
	locker, err := h.open(name, fenlock.Observer{Extend: func(context.Context, fenlock.ExtendEvent) {
		select {
		case h.extended <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		return err
	}
	defer locker.Close()
	lock, err := h.acquireOrSignal(locker, name, h.signals)
	if exit, is := errors.AsType[*exitError](err); is && exit.status == exitSignal+int(inputEnded) {
		return noInput(name)
	}
	if err != nil {
		return err
	}
	return h.follow(lock)
}

func noInput(name string) error {
	return exitf(exitHeld, "%q was not taken: standard input ended before (a program keeps it open for as long as it wants the lock)", name)
}

// inputOpen reports whether standard input has an end that is not there yet. That of /dev/null is,
// so that whether a lock is taken does not depend on who is faster.
func inputOpen() bool {
	var buffer [4096]byte
	for range 16 {
		ready, err := unix.Poll([]unix.PollFd{{Events: unix.POLLIN}}, 0)
		if ready == 0 || err != nil {
			return true
		}
		if n, _ := unix.Read(0, buffer[:]); n <= 0 {
			return false
		}
	}
	return true
}

// follow tells what happens to the lock until it ends.
func (h *hold) follow(lock *fenlock.Lock) error {
	h.lines, h.failed = make(chan holdLine, 16), make(chan error, 1)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for line := range h.lines {
			if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
				h.failed <- cannotPrint(err)
				return
			}
		}
	}()
	h.tell("held", lock, nil)
	err := h.until(lock)
	if exit, is := errors.AsType[*exitError](err); is && exit.keep {
		return err
	}
	switch released := lock.Release(context.Background()); {
	case h.ended: // that was told
	case errors.Is(released, fenlock.ErrLost), errors.Is(released, fenlock.ErrMaxHold):
		err = lostf("%v", released)
		h.tell("lost", lock, err)
	default:
		if released != nil {
			say("not released everywhere: %q is free after %v at most: %v", lock.Name(), h.ttl, released)
		}
		h.tell("released", lock, nil)
	}
	close(h.lines)
	select {
	case <-written:
	case <-time.After(patience): // there is no reader
	}
	return err
}

// until returns when the program does not want the lock any more, or does not have it. A program
// that was told a deadline may rely on it until it has read that the lock is lost. So what ends
// this command lets the deadline pass first, unless the program closes its pipe.
func (h *hold) until(lock *fenlock.Lock) (end error) {
	var passed <-chan time.Time
	stop := func(err error, why error) {
		end = err
		h.tell("lost", lock, why)
		passed = time.After(h.deadline - bootClock())
	}
	for {
		select {
		case <-h.extended:
			if end == nil {
				h.tell("extended", lock, nil)
			}
		case <-lock.Context().Done():
			if end == nil {
				end = lostf("%v", context.Cause(lock.Context()))
				h.tell("lost", lock, end)
			}
			return end
		case sig := <-h.signals:
			switch {
			case sig == inputEnded:
				return end
			case end != nil: // the second one: at once, and the lease ends by time
				return &exitError{status: exitSignal + int(sig.(syscall.Signal)), keep: true}
			}
			stop(&exitError{status: exitSignal + int(sig.(syscall.Signal))},
				fmt.Errorf("the fenlock command got the signal %v", sig))
		case err := <-h.failed:
			if end == nil {
				stop(err, err)
			}
		case <-passed:
			return end
		}
	}
}

// tell prints a line, unless too many wait for a reader: then the deadline that was told stays. The
// clock is read before the validity, so that the deadline is early if this process is paused in
// between.
func (h *hold) tell(event string, lock *fenlock.Lock, why error) {
	line := holdLine{Event: event, Token: uint64(lock.Token())}
	deadline := time.Duration(0)
	switch event {
	case "held", "extended":
		now := bootClock()
		left := lock.Remaining()
		deadline = now + left
		line.Deadline, line.Left = deadline.Milliseconds(), left.Milliseconds()
	case "lost":
		h.ended, line.Reason = true, why.Error()
	}
	if event == "held" {
		line.Name = lock.Name()
		if h.slots > 0 {
			line.Slot = &h.slot
		}
	}
	select {
	case h.lines <- line:
		h.deadline = max(h.deadline, deadline)
	default:
	}
}

// holdLine is a line that hold prints.
type holdLine struct {
	Event    string `json:"event"`
	Name     string `json:"name,omitempty"`
	Token    uint64 `json:"token"`
	Slot     *int   `json:"slot,omitempty"`
	Deadline int64  `json:"deadline_ms,omitempty"` // by the boot clock
	Left     int64  `json:"left_ms,omitempty"`
	Reason   string `json:"reason,omitempty"`
}
