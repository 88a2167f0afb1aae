//go:build linux || darwin || freebsd

package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/watchdog"
	"github.com/fenlock/fenlock/node"
)

// acquireOrSignal takes the lock. A signal ends the wait as it would end any program, except that
// nothing is left on the nodes (after locker.Close). A lock that came at the same moment and has
// --at-least stays. A leader gets some signals that are the command's.
func (o *runOptions) acquireOrSignal(locker *fenlock.Locker, name string, signals <-chan os.Signal) (*fenlock.Lock,
	error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		ended  os.Signal // by which the wait ended
		done   = make(chan struct{})
		listen sync.WaitGroup
	)
	// Not the other way around: the stack of this goroutine is deep enough.
	listen.Go(func() {
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				if o.lead && withoutCommand(sig.(syscall.Signal)) {
					continue
				}
				ended = sig
				cancel()
				return
			}
		}
	})
	lock, err := o.acquire(ctx, locker, name)
	close(done)
	listen.Wait()
	if ended == nil {
		return lock, err
	}
	if err == nil {
		lock.Release(context.Background())
	}
	return nil, &exitError{status: exitSignal + int(ended.(syscall.Signal))}
}

// acquire takes the lock, or returns an error with the exit status and, for
// people, the reason.
func (o *runOptions) acquire(ctx context.Context, locker *fenlock.Locker, name string) (*fenlock.Lock, error) {
	if o.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.wait-o.waited)
		defer cancel()
		o.waited = 0
	}
	var terms []fenlock.Option
	if o.atLeast > 0 {
		terms = append(terms, fenlock.WithMinHold(o.atLeast))
	}
	o.waitSaid, o.nodesSaid = false, false
	if o.shared {
		terms = append(terms, fenlock.WithShared())
	}
	lock, err := o.take(ctx, locker, name, terms)
	o.kept = time.Now().Add(o.atLeast)
	if err == nil {
		err = o.freshen(ctx, lock)
	}
	if err != nil {
		return nil, o.failure(name, err)
	}
	o.broken.take()
	return lock, nil
}

// take takes what the flags say: the lock, or one of its slots.
func (o *runOptions) take(ctx context.Context, locker *fenlock.Locker, name string,
	terms []fenlock.Option) (*fenlock.Lock, error) {
	waits := !o.bounded() || o.wait > 0
	switch {
	case o.slots == 0 && waits:
		return locker.Acquire(ctx, name, terms...)
	case o.slots == 0:
		return locker.TryAcquire(ctx, name, terms...)
	}
	slots, err := locker.Slots(name, o.slots)
	if err != nil {
		return nil, err
	}
	take := slots.TryAcquire
	if waits {
		take = slots.Acquire
	}
	slot, err := take(ctx, terms...)
	if err != nil {
		return nil, err
	}
	o.slot = slot.Number()
	return slot.Lock, nil
}

// observer tells what the wait is for, another holder or nodes. It tells of each once, since a log
// wants to know as well, and with --verbose whenever that changes; then it tells of every node too.
// A waiter for a slot waits for all of them at a time.
func (o *runOptions) observer() fenlock.Observer {
	var mu sync.Mutex
	return fenlock.Observer{
		Waiting: func(_ context.Context, _ string, why error) {
			mu.Lock()
			defer mu.Unlock()
			var quorum *fenlock.QuorumError
			said, nodes := &o.waitSaid, errors.As(why, &quorum)
			if nodes {
				said = &o.nodesSaid
			}
			switch {
			case *said && !o.verbose:
			case nodes && quorum.Nodes == 1:
				say("waiting: %s", o.missing(quorum))
			case nodes:
				say("waiting for nodes: %s", o.missing(quorum))
			default:
				say("waiting: %v", why)
			}
			*said = true
		},
		Node: func(change fenlock.NodeChange) {
			text := flagNames.Replace(change.String())
			if strings.HasPrefix(change.Node, "/") { // its path: no server's name begins so
				text = "the file " + strings.TrimPrefix(text, "node ")
			}
			if o.verbose {
				say("%s", text)
			} else if change.State == fenlock.NodeMisconfigured {
				o.broken.add(text)
			}
		},
	}
}

// missing says which nodes a wait is for. With --verbose, each of them was told. New
// servers are nothing to worry about.
func (o *runOptions) missing(e *fenlock.QuorumError) string {
	last, starting := time.Duration(0), len(e.Errors) > 0
	for _, n := range e.Errors {
		var out *node.AbsenceError
		if starting = starting && errors.As(n.Err, &out) && out.Absence.Wait > 0; starting {
			last = max(last, out.Absence.Wait)
		}
	}
	if starting {
		return fmt.Sprintf("%d of %d servers are new, or were restarted, and may have forgotten locks: voting starts in %d s",
			len(e.Errors), e.Nodes, int(math.Ceil(last.Seconds())))
	}
	if o.verbose && !e.Late && e.Nodes > 1 {
		return fmt.Sprintf("%d of %d have to vote", e.Need, e.Nodes)
	}
	return e.Error()
}

// freshen extends a lock that was taken, but whose validity is too short to go on with: fenlock was
// paused meanwhile.
func (o *runOptions) freshen(ctx context.Context, lock *fenlock.Lock) error {
	if lock.Remaining() > o.ttl/watchdog.TermShare {
		return nil
	}
	err := lock.Extend(ctx)
	if err != nil {
		lock.Release(context.WithoutCancel(ctx))
	}
	return err
}

// failure is the error of a lock that was not taken.
func (o *runOptions) failure(name string, err error) error {
	waited := ""
	if o.wait > 0 && errors.Is(err, context.DeadlineExceeded) {
		waited = "gave up after " + o.wait.Round(time.Millisecond).String() + ": "
	}
	var held *fenlock.HeldError
	var quorum *fenlock.QuorumError
	switch {
	case isUsage(err):
		return usageError(err)
	case errors.Is(err, fenlock.ErrSlots):
		return exitf(exitSlots, "%v: see --slots", err)
	case errors.As(err, &held) && held.Name != name: // a slot's
		return o.conflict("%snone of the %d slots of %q is free: %s", waited, o.slots, name,
			strings.TrimPrefix(held.Error(), "fenlock: "))
	case errors.As(err, &held):
		return o.conflict("%s%v", waited, held)
	case errors.As(err, &quorum):
		return exitf(exitNoQuorum, "%s%s", waited, flagNames.Replace(quorum.Error()))
	case errors.Is(err, fenlock.ErrLost), errors.Is(err, fenlock.ErrMaxHold):
		return lostf("the command was not started: %v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return o.conflict("%stoo short for one attempt to take %q", waited, name)
	}
	return exitf(exitNoQuorum, "%v", err)
}

// conflict is the error of a lock that another client has, or of a wait that ran out. With -E 0 it
// is none, so that --quiet is silent of it: cron mails each line that a job prints.
func (o *runOptions) conflict(format string, args ...any) error {
	if quiet && o.heldStatus == 0 {
		return &exitError{}
	}
	return exitf(o.heldStatus, format, args...)
}
