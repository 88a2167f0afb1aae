//go:build linux || darwin || freebsd

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/clock"
	"golang.org/x/sys/unix"
)

// A watchdog is a process between fenlock and the command. It is the parent of the
// command, knows until when the lock is valid, and ends the command and what that has
// started before somebody else can have the lock: also when fenlock was killed, was
// stopped, or waits for somebody to read what it prints. It is fenlock's own program
// under this name.
const watchdogName = "fenlock-watchdog"

// watchdogComm is its name where no arguments are looked at, as by pkill; of at most 15
// bytes. "pkill fenlock" has to miss it: of two that are killed or stopped at the same
// moment, neither ends the command and what it started.
const watchdogComm = "lock-watchdog"

// watched is a command with its watchdog, as fenlock sees them.
type watched struct {
	link     *link
	news     <-chan news
	process  *os.Process
	gone     chan struct{}   // closed when the watchdog has ended
	others   map[int]process // what fenlock had started before: nothing of the command's
	early    []order         // what the watchdog is to be told when the command runs
	pid      int             // of the command, 0 before it was started
	asked    time.Duration   // when the watchdog asked last, by clock.Now
	startBy  time.Duration   // when the command has to run, by clock.Now
	ending   syscall.Signal  // that came before the command ran
	stopping bool            // the watchdog has said that it stops the command
	unwanted bool            // a signal has asked the command to end
	terminal *terminal
}

// startPatience is how long a watchdog is waited for that may have been stopped, where
// nothing else ends the wait: until it has become this program, and after a signal.
const startPatience = 3 * time.Second

// watch starts a watchdog, in an environment, for a command that has to run within some
// time. The caller closes it.
func watch(within time.Duration, environment []string) (*watched, error) {
	adoptOrphans() // those of a watchdog that is killed
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	program, err := ownProgram()
	if err != nil {
		ours.Close()
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: program, Args: []string{watchdogName, strconv.Itoa(int(theirs.Fd()))}, Env: environment,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		// A group of its own: what is done to fenlock's is not done to it.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	l, err := newLink(ours)
	if err != nil {
		return nil, err
	}
	others := make(map[int]process)
	for _, p := range descendants() {
		others[p.Pid] = p
	}
	// Nothing else is started meanwhile that could inherit it.
	unix.FcntlInt(theirs.Fd(), syscall.F_SETFD, 0)
	startBy := clock.Now() + within
	// Start returns when the process has become the program: never, if it was stopped
	// before. Whoever is killed here is found to be gone, as later.
	stuck := time.AfterFunc(min(within, startPatience), func() { killAll(others) })
	err = cmd.Start()
	stuck.Stop()
	if err != nil {
		l.conn.Close()
		return nil, err
	}
	w := &watched{link: l, news: receive[news](l), process: cmd.Process, gone: make(chan struct{}), others: others, startBy: startBy}
	go func() {
		cmd.Wait()
		close(w.gone)
	}()
	return w, nil
}

func (w *watched) close() {
	w.link.conn.Close()
	select {
	case <-w.gone:
	case <-time.After(time.Second): // it was stopped
		w.process.Kill()
		<-w.gone
	}
}

// tell tells the watchdog something about the command, when that runs.
func (w *watched) tell(o order) {
	if w.pid == 0 {
		w.early = append(w.early, o)
		return
	}
	w.link.send(o)
}

// follow gives the job to the watchdog and answers its questions until the command has
// ended. The error has a status: the command was not started, or its watchdog was killed.
func (w *watched) follow(lock *fenlock.Lock, j job, signals <-chan os.Signal, tell func(report)) (*ended, error) {
	gone, look := lock.Context().Done(), lookEvery(j.TTL)
	timer := time.NewTicker(look)
	defer timer.Stop()
	limit := clock.Now() + lock.Remaining() - j.TTL/killShare + look
	if w.terminal = ownTerminal(); w.terminal != nil {
		j.Foreground = true
	}
	for {
		select {
		case n, more := <-w.news:
			switch {
			case !more:
				what := "the command was stopped"
				if w.pid == 0 {
					what = "the command was not started, or was stopped at once"
				}
				return nil, w.lost(lock.Name(), exitf(exitLost, "the watchdog of %q was killed (process %d): %s", lock.Name(), w.process.Pid, what))
			case n.Asks == 1 && w.ending != 0:
				return nil, w.giveUp(lock.Name())
			case n.Asks > 0:
				w.asked = clock.Now()
				o, within := order{Answer: &answer{Asked: n.Asks, Left: lock.Remaining()}}, linkTimeout
				if n.Asks == 1 {
					// An environment may be long. A command that is not started by then
					// must not be.
					o.Job, within = &j, max(o.Answer.Left-j.TTL/termShare, 0)
				}
				if !w.link.sendWithin(within, o) && w.pid == 0 {
					w.process.Kill()
					return nil, lostf("the lock on %q could not be kept: the command was not started", lock.Name())
				}
			case n.Started > 0:
				w.pid = n.Started
				if w.terminal != nil {
					// From now on fenlock is in the background, where writing messages
					// and taking the terminal back would stop it. Not earlier: the
					// command would inherit that the signal is ignored.
					signal.Ignore(syscall.SIGTTOU)
				}
				for _, o := range w.early {
					w.link.send(o)
				}
			case n.Failed != nil:
				w.finish(false)
				if n.Failed.Status == exitLost {
					return nil, lostf("the lock on %q could not be kept: the command was not started", lock.Name())
				}
				return nil, &exitError{status: n.Failed.Status, message: n.Failed.Message}
			case n.Report != nil:
				w.stopping = w.stopping || n.Report.Do != leave
				tell(*n.Report)
			case n.Say != "":
				say("%s", n.Say)
			case n.Ended != nil:
				w.finish(n.Ended.Stopped)
				return n.Ended, nil
			}
		case <-gone:
			gone = nil
			w.tell(order{Gone: true})
		case sig := <-signals:
			w.pass(sig.(syscall.Signal))
		case <-timer.C:
			now := clock.Now()
			if w.pid == 0 && now > w.startBy {
				return nil, w.giveUp(lock.Name())
			}
			if left := lock.Remaining(); left > 0 {
				limit = now + left - j.TTL/killShare + look
			} else {
				limit = min(limit, now+2*j.TTL/graceShare)
			}
			// A watchdog that does nothing was stopped.
			if now > limit && w.pid != 0 {
				w.kill()
			}
			if w.pid == 0 || now > min(limit, w.asked+j.TTL/termShare) {
				w.process.Signal(syscall.SIGCONT)
			}
		}
	}
}

// pass gives a signal that fenlock got to the command.
func (w *watched) pass(sig syscall.Signal) {
	switch sig {
	case syscall.SIGTSTP:
		say("not stopped (Ctrl-Z): nobody would extend the lock")
		return
	case syscall.SIGCONT:
		if w.pid != 0 {
			w.terminal.give(w.pid) // "fg" gave it to fenlock
		}
	case syscall.SIGWINCH:
	default:
		w.unwanted = w.unwanted || asksToEnd(sig) || w.stopping && sig == syscall.SIGHUP
		if w.pid == 0 && w.ending == 0 {
			// The command may run already. If it does, it has the signal when that
			// is known; if this is not known soon, it is not waited for.
			w.ending = sig
			w.startBy = min(w.startBy, clock.Now()+startPatience)
		}
	}
	w.tell(order{Signal: sig})
}

// kill kills what the command has started, and nothing that fenlock had before.
func (w *watched) kill() (left []process) {
	if w.pid != 0 {
		syscall.Kill(-w.pid, syscall.SIGKILL)
	}
	return killAll(w.others, w.process.Pid)
}

// killAll kills all that this process has started, but those.
func killAll(others map[int]process, spare ...int) (left []process) {
	for _, p := range descendants() {
		if others[p.Pid] != p && !slices.Contains(spare, p.Pid) {
			syscall.Kill(p.Pid, syscall.SIGKILL)
			left = append(left, p)
		}
	}
	return left
}

// giveUp ends a watchdog that has not said whether the command runs. It may have been
// stopped after it has started the command.
func (w *watched) giveUp(name string) error {
	w.process.Kill()
	if w.ending != 0 {
		return w.lost(name, &exitError{status: exitSignal + int(w.ending)})
	}
	return w.lost(name, lostf("the command was not started: the watchdog of %q (process %d) did not answer while the lock was valid for long enough; was it stopped, or is this machine overloaded?", name, w.process.Pid))
}

// lost ends the command of a watchdog that was killed: nobody would end it in time. It
// returns the error if nobody is left.
func (w *watched) lost(name string, err error) error {
	<-w.gone
	left, quiet := w.kill(), 0
	// One look may miss who was forked meanwhile.
	for deadline := clock.Now() + 2*time.Second; quiet < 5 && clock.Now() < deadline; quiet++ {
		time.Sleep(groupPoll)
		reap()
		if left = w.kill(); len(left) > 0 {
			quiet = 0
		}
	}
	w.finish(true)
	if len(left) > 0 {
		return &exitError{status: exitLost, keep: true, message: fmt.Sprintf("the watchdog of %q was killed (process %d), and these could not be stopped: %v; the lock is not released", name, w.process.Pid, left)}
	}
	return err
}

// finish takes the terminal back, which must not stop fenlock. After a command that was
// stopped it also puts back the terminal's modes, which a killed editor leaves behind.
func (w *watched) finish(stopped bool) {
	signal.Ignore(syscall.SIGTTOU)
	if stopped {
		w.terminal.restoreModes()
	}
	w.terminal.takeBack()
}
