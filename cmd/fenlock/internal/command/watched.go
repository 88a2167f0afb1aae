//go:build linux || darwin || freebsd

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/processes"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/watchdog"
	"github.com/fenlock/fenlock/node/clock"
	"golang.org/x/sys/unix"
)

// watched is a command with its watchdog, as fenlock sees them.
type watched struct {
	link     watchdog.Link
	news     <-chan watchdog.News
	process  *os.Process               // nil: it is a part of fenlock, see watchHere
	gone     chan struct{}             // closed when the watchdog has ended
	shared   int                       // the descriptor of the lock that the command has too; 0: none
	others   map[int]processes.Process // what fenlock had started before: nothing of the command's
	early    []watchdog.Order          // what the watchdog is to be told when the command runs
	pid      int                       // of the command, 0 before it was started
	asked    time.Duration             // when the watchdog asked last, by clock.Now
	startBy  time.Duration             // when the command has to run, by clock.Now
	ending   syscall.Signal            // that came before the command ran
	stopping bool                      // the watchdog has said that it stops the command
	unwanted bool                      // a signal has asked the command to end
	terminal *terminal
	stopped  bool // the command, because it needs the terminal and fenlock does not have it
}

// groupPoll is how often it is looked whether those are gone that were killed.
const groupPoll = 10 * time.Millisecond

// startPatience is how long a watchdog is waited for that may have been stopped, where nothing else
// ends the wait. That is until it has become this program, and after a signal.
const startPatience = 3 * time.Second

// watch starts a watchdog, in an environment. It is an error if that has not become this program
// within some time. The caller closes it.
func watch(within time.Duration, environment []string) (*watched, error) {
	processes.AdoptOrphans() // those of a watchdog that is killed
	ours, theirs, err := watchdog.Pair()
	if err != nil {
		return nil, err
	}
	defer syscall.Close(theirs)
	l, err := watchdog.NewLink(ours)
	if err != nil {
		syscall.Close(ours)
		return nil, err
	}
	program, err := processes.OwnProgram()
	if err != nil {
		l.Close()
		return nil, err
	}
	// It waits, mostly: threads that look for more work only cost time. The command's own
	// environment comes with the job.
	environment = append(slices.Clone(environment), "GOMAXPROCS=1")
	cmd := &exec.Cmd{
		Path: program, Args: []string{watchdog.Name, strconv.Itoa(theirs)}, Env: environment,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		// A group of its own: what is done to fenlock's is not done to it.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	others := make(map[int]processes.Process)
	for _, p := range processes.Descendants() {
		others[p.Pid] = p
	}
	// Nothing else is started meanwhile that could inherit it.
	unix.FcntlInt(uintptr(theirs), syscall.F_SETFD, 0)
	// Start returns when the process has become the program: never, if it was stopped before. A
	// watchdog that is killed here is found to be gone, as later.
	stuck := time.AfterFunc(within, func() { killAll(others) })
	err = processes.Aside(cmd.Start)
	stuck.Stop()
	if err != nil {
		l.Close()
		return nil, err
	}
	w := &watched{link: l, news: l.News(), process: cmd.Process, gone: make(chan struct{}), others: others}
	go func() {
		cmd.Wait()
		close(w.gone)
	}()
	return w, nil
}

func (w *watched) close() {
	w.link.Close()
	if w.shared > 0 {
		defer syscall.Close(w.shared)
	}
	select {
	case <-w.gone:
	case <-time.After(time.Second): // it was stopped
		if w.process != nil {
			w.process.Kill()
			<-w.gone
		}
	}
}

// dismiss ends the watchdog, and the command with it.
func (w *watched) dismiss() {
	if w.process == nil {
		w.link.Close()
		return
	}
	w.process.Kill()
}

// tell tells the watchdog something about the command, when that runs.
func (w *watched) tell(o watchdog.Order) {
	if w.pid == 0 {
		w.early = append(w.early, o)
		return
	}
	w.link.Tell(o)
}

// follow gives the job to the watchdog and answers its questions until the command has
// ended. The error has a status: the command was not started, or its watchdog was killed.
func (w *watched) follow(lock *fenlock.Lock, j watchdog.Job, signals <-chan os.Signal,
	tell func(watchdog.Report)) (*watchdog.Ended, error) {
	gone, look := lock.Context().Done(), watchdog.LookEvery(j.TTL)
	timer := time.NewTicker(look)
	defer timer.Stop()
	limit := clock.Now() + lock.Remaining() - j.TTL/watchdog.KillShare + look
	if w.terminal = ownTerminal(); w.terminal != nil {
		j.Foreground = true
	}
	late := false
	for {
		select {
		case n, more := <-w.news:
			switch {
			case !more:
				what := "the command was stopped"
				if w.pid == 0 {
					what = "the command was not started, or was stopped at once"
				}
				return nil, w.lost(lock.Name(),
					exitf(exitLost, "the watchdog of %q was killed (process %d): %s", lock.Name(), w.processID(), what))
			case n.Asks == 1 && w.ending != 0:
				return nil, w.giveUp(lock.Name())
			case n.Asks > 0:
				w.asked = clock.Now()
				o, within := watchdog.Order{Answer: &watchdog.Answer{Asked: n.Asks,
					Left: lock.Remaining()}}, watchdog.PatientTimeout
				if n.Asks == 1 {
					// An environment may be long. A command that is not started by then
					// must not be.
					o.Job, within = &j, max(o.Answer.Left-j.TTL/watchdog.TermShare, 0)
				}
				if !w.link.TellWithin(within, o) && w.pid == 0 {
					w.dismiss()
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
					w.link.Tell(o)
				}
			case n.Failed != nil:
				w.finish(false)
				if n.Failed.Late {
					return nil, lostf("the lock on %q could not be kept: the command was not started", lock.Name())
				}
				return nil, startError(j.Args[0], n.Failed.Errno)
			case n.Report != nil:
				w.stopping = w.stopping || n.Report.Do != watchdog.Leave
				tell(*n.Report)
			case n.Say != "":
				say("%s", n.Say)
			case n.NeedsTerminal:
				say("the command was stopped because it needs the terminal: " +
					"it goes on when fenlock is in the foreground (fg), with the terminal as its input")
				w.stopped = true
			case n.Suspended:
				w.suspend(lock)
			case n.Ended != nil:
				w.finish(n.Ended.Stopped)
				return n.Ended, nil
			}
		case <-gone:
			gone = nil
			w.tell(watchdog.Order{Gone: true})
		case sig := <-signals:
			w.pass(sig.(syscall.Signal))
		case <-timer.C:
			now := clock.Now()
			if w.stopped {
				w.lend()
			}
			if w.pid == 0 && now > w.startBy {
				if late {
					return nil, w.giveUp(lock.Name())
				}
				late = true // this process may have been stopped: what was said meanwhile is heard first
			}
			if left := lock.Remaining(); left > 0 {
				limit = now + left - j.TTL/watchdog.KillShare + look
			} else {
				limit = min(limit, now+2*j.TTL/watchdog.GraceShare)
			}
			// A watchdog that does nothing was stopped.
			if now > limit && w.pid != 0 {
				w.kill()
			}
			if w.process != nil && (w.pid == 0 || now > min(limit, w.asked+j.TTL/watchdog.TermShare)) {
				w.process.Signal(syscall.SIGCONT)
			}
		}
	}
}

// pass gives a signal that fenlock got to the command.
func (w *watched) pass(sig syscall.Signal) {
	switch sig {
	case syscall.SIGTSTP:
		if w.process == nil {
			break // fenlock follows the command
		}
		if w.shared > 0 {
			say("not stopped (Ctrl-Z): the shell that became fenlock has other processes")
			return
		}
		say("not stopped (Ctrl-Z): the lock would not be extended")
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
	w.tell(watchdog.Order{Signal: sig})
}

// processID is the watchdog's.
func (w *watched) processID() int {
	if w.process == nil {
		return os.Getpid()
	}
	return w.process.Pid
}

// suspend stops fenlock after its command was stopped with Ctrl-Z: the shell, which knows fenlock
// only, is to see that. When it goes on, or was not stopped, the command does, unless the lock was
// broken meanwhile. Another command may have it then, and this one must not work beside that.
func (w *watched) suspend(lock *fenlock.Lock) {
	w.terminal.takeBack()
	stopJob()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	if errors.Is(lock.Extend(ctx), fenlock.ErrLost) {
		return // follow hears of it, and has the command ended
	}
	w.terminal.give(w.pid) // if fenlock is in the foreground
	w.tell(watchdog.Order{Signal: syscall.SIGCONT})
}

// lend gives the terminal to a command that was stopped because it needs it, once fenlock has it. A
// shell that puts a job into the foreground does not tell, unless the job itself was stopped.
func (w *watched) lend() {
	t := ownTerminal()
	if t == nil {
		return
	}
	w.stopped = false
	if w.terminal == nil {
		w.terminal = t
		signal.Ignore(syscall.SIGTTOU) // as after the start
	}
	t.give(w.pid)
	w.tell(watchdog.Order{Signal: syscall.SIGCONT})
}

// asksToEnd reports whether a signal to the command says that it is not wanted any more: who
// sends one does not want it started again. SIGHUP may as well ask it to read its files.
func asksToEnd(sig syscall.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGQUIT || sig == syscall.SIGTERM
}

// kill kills what the command has started, and nothing that fenlock had before.
func (w *watched) kill() (left []processes.Process) {
	if w.pid != 0 {
		syscall.Kill(-w.pid, syscall.SIGKILL)
	}
	return killAll(w.others, w.processID())
}

// killAll kills all that this process has started, but those.
func killAll(others map[int]processes.Process, spare ...int) (left []processes.Process) {
	for _, p := range processes.Descendants() {
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
	w.dismiss()
	if w.ending != 0 {
		return w.lost(name, &exitError{status: exitSignal + int(w.ending)})
	}
	return w.lost(name, lostf("the command was not started: the watchdog of %q (process %d) did not answer while the lock was valid for long enough; was it stopped, or is this machine overloaded?", name, w.processID()))
}

// lost ends the command of a watchdog that was killed: it would not be ended in time. It returns
// the error if no process is left.
func (w *watched) lost(name string, err error) error {
	<-w.gone
	left, quiet := w.kill(), 0
	// One look may miss who was forked meanwhile.
	for deadline := clock.Now() + 2*time.Second; quiet < 5 && clock.Now() < deadline; quiet++ {
		time.Sleep(groupPoll)
		processes.Reap()
		if left = w.kill(); len(left) > 0 {
			quiet = 0
		}
	}
	w.finish(true)
	if len(left) > 0 {
		return &exitError{status: exitLost, keep: true,
			message: fmt.Sprintf(
				"the watchdog of %q was killed (process %d), and these could not be stopped: %v; the lock is not released", name,
				w.processID(), left)}
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
