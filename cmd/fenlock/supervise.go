//go:build linux || darwin || freebsd

package main

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/node/clock"
)

// step is what is to be done about a command that runs under a lock.
type step uint8

const (
	leave     step = iota // let it run
	terminate             // ask it to end: SIGTERM to its process group
	kill                  // end it: SIGKILL to its process group
)

// outlook is what is known of the lock while the command runs.
type outlook struct {
	ttl  time.Duration
	left time.Duration // validity left, as last known; 0 or less: it has ended
	gone bool          // the lock says that it is not held any more
	// stopping: SIGTERM was sent, since ago. From then on left does not grow.
	stopping bool
	since    time.Duration
}

// Between SIGTERM and SIGKILL a command has a quarter of the TTL, roughly; what
// is left after SIGKILL is for the kernel to tear a large process down.
const (
	termShare = 3  // a TTL's third is left: all attempts to extend have failed
	killShare = 10 // a TTL's tenth is left
	// graceShare bounds the time to end after a lock that is gone already, and
	// may be somebody else's.
	graceShare = 10
	lookShare  = 20
)

// decide says what to do now, and after how long to decide again at the latest.
// It counts back from the end of the validity, so that the command is dead
// before the lease can be somebody else's.
//
// It does not matter why the validity is not growing: nodes that are down, a
// maximum hold, or a pause of fenlock itself, after which left is small or gone.
func decide(o outlook) (do step, again time.Duration) {
	untilKill := o.left - o.ttl/killShare
	if o.gone && o.stopping {
		untilKill = min(untilKill, o.ttl/graceShare-o.since)
	}
	// Never long: timers stand still while the machine is suspended, the
	// validity does not.
	look := min(o.ttl/lookShare, time.Second)
	switch {
	case untilKill <= 0:
		return kill, look
	case o.stopping:
		return leave, min(look, untilKill)
	case o.gone, o.left <= o.ttl/termShare:
		return terminate, min(look, untilKill)
	}
	return leave, min(look, o.left-o.ttl/termShare)
}

// held is what a supervisor needs to know of a *fenlock.Lock.
type held interface {
	Context() context.Context
	Remaining() time.Duration
}

// supervisor watches a command and its lock until the command has ended. Its
// fields are for one goroutine.
type supervisor struct {
	lock    held
	ttl     time.Duration
	child   *child
	signals <-chan os.Signal // to fenlock, to be passed on
	// report is told once that the command is asked to end (terminate), once
	// that it is killed, and with leave each time that the extension is
	// overdue.
	report func(do step, left time.Duration)

	end     time.Duration // of the validity, on clock.Now's clock, as last known
	overdue bool
	// When SIGTERM and SIGKILL were sent; 0: not yet. stopAt is that of the first.
	stopAt, killAt time.Duration
}

// groupPoll is how often a process group is looked at whose leader has ended.
const groupPoll = 10 * time.Millisecond

// run returns how the command ended, and whether it was stopped for the lock's
// sake. If it was, no process of its group is left; if it was not, processes that
// it left behind go on.
func (s *supervisor) run() (how syscall.WaitStatus, stopped bool) {
	ended, changed := false, s.child.changes()
	gone := s.lock.Context().Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if !ended {
			how, ended = s.child.poll()
		}
		if ended && !s.waitForGroup() {
			return how, s.stopAt != 0
		}
		again := s.look()
		if ended {
			again = min(again, groupPoll)
		}
		timer.Reset(again)
		select {
		case <-timer.C:
		case <-changed:
		case <-gone:
			gone = nil
		case sig := <-s.signals:
			s.child.pass(sig.(syscall.Signal))
		}
	}
}

// look decides, and does what was decided.
func (s *supervisor) look() (again time.Duration) {
	// The clock is read before, so that end is never too late.
	now := clock.Now()
	if left := s.lock.Remaining(); left > 0 && s.stopAt == 0 {
		s.end = now + left
	}
	left := s.end - now
	do, again := decide(outlook{
		ttl: s.ttl, left: left, gone: s.lock.Context().Err() != nil,
		stopping: s.stopAt != 0, since: now - s.stopAt,
	})
	switch {
	case s.killAt != 0:
	case do == kill:
		s.child.signal(syscall.SIGKILL)
		s.killAt = now
		if s.stopAt == 0 {
			s.stopAt = now
		}
		s.report(kill, left)
	case do == terminate:
		s.child.signal(syscall.SIGTERM)
		s.stopAt = now
		s.report(terminate, left)
	case s.stopAt == 0 && left < s.ttl/2:
		if !s.overdue {
			s.report(leave, left)
		}
		s.overdue = true
	default:
		s.overdue = false
	}
	return again
}

// waitForGroup reports whether processes of a group that is being stopped go on
// after its leader. In a container whose first process does not reap, the dead
// stay in the group for ever; so the wait ends some time after SIGKILL.
func (s *supervisor) waitForGroup() bool {
	if s.stopAt == 0 || !s.child.groupAlive() {
		return false
	}
	return s.killAt == 0 || clock.Now() < max(s.end, s.killAt+s.ttl/killShare)
}
