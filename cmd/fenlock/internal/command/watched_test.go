//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/processes"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/watchdog"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/filenode"
)

// fakeWatchdog returns a watchdog that is a script, and its end of the link.
func fakeWatchdog(t *testing.T, within time.Duration, script string) (w *watched, theirs watchdog.Link, cmd *exec.Cmd) {
	t.Helper()
	w = &watched{gone: make(chan struct{}), others: make(map[int]processes.Process), startBy: clock.Now() + within}
	for _, p := range processes.Descendants() {
		w.others[p.Pid] = p
	}
	a, b, err := watchdog.Pair()
	must(t, err)
	for end, descriptor := range map[*watchdog.Link]int{&w.link: a, &theirs: b} {
		if *end, err = watchdog.NewLink(descriptor); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*end).Close)
	}
	w.news = w.link.News()
	cmd = exec.Command("sh", "-c", script)
	return w, theirs, cmd
}

// run starts the script.
func (w *watched) run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, cmd.Start())
	w.process = cmd.Process
	go func() {
		cmd.Wait()
		close(w.gone)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-w.gone
	})
}

// held returns a lock on a file.
func held(t *testing.T, ttl time.Duration) *fenlock.Lock {
	t.Helper()
	n, err := filenode.OpenFile(t.TempDir() + "/x")
	must(t, err)
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, TTL: ttl, MaxTTL: max(ttl, fenlock.DefaultMaxTTL)})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	lock, err := l.Acquire(t.Context(), "x")
	must(t, err)
	return lock
}

// However a watchdog gets stuck before the command runs, fenlock gives up when the validity
// asks for it, or soon after a signal.
func TestTheWatchdogGetsStuck(t *testing.T) {
	const (
		sleeps  = "exec sleep 3600"
		stopped = "while :; do kill -STOP $$; done"
	)
	for _, test := range []struct {
		name, script string
		asks         bool // for the job, and says nothing of it
		signal       syscall.Signal
		status       int
	}{
		{"never asks", sleeps, false, 0, 76},
		{"stopped right after its start", stopped, false, 0, 76},
		{"never starts the command", sleeps, true, 0, 76},
		{"never asks, and a signal", stopped, false, syscall.SIGINT, 130},
		{"never starts the command, and a signal", stopped, true, syscall.SIGTERM, 143},
		{"SIGCONT ends nothing", sleeps, false, syscall.SIGCONT, 76},
	} {
		t.Run(test.name, func(t *testing.T) {
			ttl := time.Second
			if test.signal != 0 && test.status != 76 {
				ttl = time.Hour // is not waited for
			}
			lock := held(t, ttl)
			w, theirs, cmd := fakeWatchdog(t, lock.Remaining()-ttl/watchdog.TermShare, test.script)
			w.run(t, cmd)
			signals, done := make(chan os.Signal), make(chan error, 1)
			go func() {
				_, err := w.follow(lock, watchdog.Job{Args: []string{"true"}, TTL: ttl}, signals, func(watchdog.Report) {})
				done <- err
			}()
			if test.asks {
				theirs.Report(watchdog.News{Asks: 1})
				if o := <-theirs.Orders(); o.Job == nil || o.Answer == nil {
					t.Errorf("no job: %+v", o)
				}
			}
			if test.signal != 0 {
				signals <- test.signal
			}
			select {
			case err := <-done:
				if exit, is := errors.AsType[*exitError](err); !is || exit.status != test.status || exit.keep {
					t.Errorf("%#v", err)
				}
			case <-time.After(limit):
				t.Fatal("it waits for ever")
			}
			select {
			case <-w.gone:
			default:
				t.Error("the watchdog was left")
			}
		})
	}
}

// A command that is to end is not started any more.
func TestASignalBeforeTheJobIsGiven(t *testing.T) {
	lock := held(t, time.Hour)
	w, theirs, cmd := fakeWatchdog(t, time.Hour, "exec sleep 3600")
	w.run(t, cmd)
	signals, done := make(chan os.Signal), make(chan error, 1)
	go func() {
		_, err := w.follow(lock, watchdog.Job{Args: []string{"true"}, TTL: time.Hour}, signals, func(watchdog.Report) {})
		done <- err
		w.link.Close()
	}()
	signals <- syscall.SIGHUP
	theirs.Report(watchdog.News{Asks: 1})
	for o := range theirs.Orders() {
		t.Errorf("it was told %+v", o)
	}
	var exit *exitError
	if err := <-done; !errors.As(err, &exit) || exit.status != 129 {
		t.Errorf("%#v", err)
	}
}

// What the watchdog has said while this process was stopped is heard, however late it is.
func TestTheStartIsHeardLate(t *testing.T) {
	for range 10 {
		lock := held(t, time.Second)
		w, theirs, cmd := fakeWatchdog(t, -time.Second, "exec sleep 3600")
		w.run(t, cmd)
		for _, n := range []watchdog.News{
			{Report: &watchdog.Report{Do: watchdog.Leave}},
			{Started: 1 << 30},
			{Ended: &watchdog.Ended{How: 4 << 8}},
		} {
			theirs.Report(n)
		}
		over, err := w.follow(lock, watchdog.Job{Args: []string{"true"}, TTL: time.Second}, nil, func(watchdog.Report) {
			for len(w.news) < 2 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(2 * watchdog.LookEvery(time.Second)) // the timer is due
		})
		if err != nil || over.How.ExitStatus() != 4 {
			t.Fatalf("%+v, %v", over, err)
		}
	}
}
