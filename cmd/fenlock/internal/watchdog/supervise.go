//go:build linux || darwin || freebsd

package watchdog

import (
	"os"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/node/clock"
)

// supervisor watches a command and its lock until the command has ended. Its
// fields are for one goroutine.
type supervisor struct {
	ttl      time.Duration
	child    *child
	watchdog *watchdog

	end      time.Duration // of the validity, on clock.Now's clock, as last known
	gone     bool          // the lock is not held any more
	orphaned bool          // fenlock has ended
	overdue  bool
	// When SIGTERM and SIGKILL were sent; 0: not yet. stopAt is that of the first.
	stopAt, killAt time.Duration
}

// groupPoll is how often a process group is looked at whose leader has ended, or that
// was killed.
const groupPoll = 10 * time.Millisecond

// run returns how the command ended, and whether it was stopped for the lock's
// sake. If it was, no process of it is left but those that cannot be killed; if it was not,
// those that it left behind go on.
func (s *supervisor) run() (how syscall.WaitStatus, stopped bool) {
	ended, changed := false, s.child.changes()
	orders := s.watchdog.orders
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if !ended {
			how, ended = s.child.poll()
		}
		// Looked at before: a command that ends when its time was up, or that was killed because it
		// was, leaves nothing behind.
		again := s.look()
		if s.over(ended) {
			return how, s.stopAt != 0
		}
		if ended || s.killAt != 0 {
			again = min(again, groupPoll)
		}
		timer.Reset(again)
		select {
		case <-timer.C:
		case <-changed:
		case o, more := <-orders:
			if !more {
				orders, s.orphaned = nil, true
			}
			s.take(o)
		case sig := <-s.watchdog.signals:
			s.child.signal(sig.(syscall.Signal))
		}
	}
}

func (s *supervisor) take(o Order) {
	switch {
	case o.Gone:
		// A process that cannot be ended is waited for no longer than a lease by time would last.
		s.gone, s.end = true, min(s.end, clock.Now()+s.ttl)
	case o.Signal != 0:
		s.child.signal(o.Signal)
	case o.Answer != nil:
		if end, last := s.watchdog.end(o.Answer); last && o.Answer.Left > 0 && s.stopAt == 0 {
			s.end = end
		}
	}
}

// look decides, and does what was decided.
func (s *supervisor) look() (again time.Duration) {
	now := clock.Now()
	if w := s.watchdog; !s.orphaned && !w.open && now-w.asked >= LookEvery(s.ttl)/2 {
		w.ask()
	}
	left := s.end - now
	do, again := decide(outlook{
		ttl: s.ttl, left: left, gone: s.gone,
		stopping: s.stopAt != 0, since: now - s.stopAt,
	})
	if s.orphaned {
		do = Kill // no fenlock extends the lock, or can be told how the command ends
	}
	switch {
	case s.killAt != 0:
		s.child.stop(syscall.SIGKILL) // processes that were forked meanwhile
	case do == Kill:
		err := s.child.stop(syscall.SIGKILL)
		s.killAt = now
		if s.stopAt == 0 {
			s.stopAt = now
		}
		s.report(Kill, left, err)
	case do == Terminate:
		err := s.child.stop(syscall.SIGTERM)
		s.stopAt = now
		s.report(Terminate, left, err)
	case s.stopAt == 0 && left < s.ttl/2:
		if !s.overdue {
			s.report(Leave, left, nil)
		}
		s.overdue = true
	default:
		s.overdue = false
	}
	return again
}

// report tells that the command is asked to end (Terminate), once that it is killed, and
// with Leave each time that the extension is overdue.
func (s *supervisor) report(do Step, left time.Duration, err error) {
	s.watchdog.link.Report(News{Report: &Report{Do: do, Left: left, Denied: err != nil}})
}

// over reports whether there is nothing to wait for. A command that is being stopped ends with all
// that it has started; but some may not be killed, as those of another user, and the lock is
// another client's by then.
func (s *supervisor) over(ended bool) bool {
	if s.stopAt == 0 || ended && !s.child.alive() {
		return ended
	}
	return s.killAt != 0 && clock.Now() >= max(s.end, s.killAt+s.ttl/KillShare)
}

// watchdog is the side of the link that asks.
type watchdog struct {
	link    Link
	orders  <-chan Order
	signals <-chan os.Signal

	question uint64
	asked    time.Duration // when the question was, by clock.Now
	open     bool          // it was not answered
}

// ask asks how long the lock is valid.
func (w *watchdog) ask() {
	w.question++
	w.open, w.asked = true, clock.Now()
	w.link.Report(News{Asks: w.question})
}

// end returns the end of the validity by an answer, false if it is no answer to the
// last question.
func (w *watchdog) end(a *Answer) (time.Duration, bool) {
	if a.Asked != w.question || !w.open {
		return 0, false
	}
	w.open = false
	return w.asked + a.Left, true
}
