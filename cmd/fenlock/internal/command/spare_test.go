//go:build linux || darwin || freebsd

package command

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/watchdog"
	"github.com/fenlock/fenlock/node/clock"
)

// newSpareFor returns one that has a watchdog: a busy machine may not have started it in time.
func newSpareFor(t *testing.T, ttl time.Duration) (*spare, *watched) {
	t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		s := newSpare(os.Environ(), ttl)
		s.mu.Lock()
		w := s.w
		s.mu.Unlock()
		if w != nil {
			t.Cleanup(func() { w.process.Kill(); <-w.gone })
			return s, w
		}
	}
	t.Fatal("no watchdog")
	return nil, nil
}

// ends fails the test unless the watchdog ends.
func (w *watched) ends(t *testing.T) {
	t.Helper()
	select {
	case <-w.gone:
	case <-time.After(limit):
		t.Fatal("the watchdog is still there")
	}
}

// The command that has it runs by it, and no other can have it.
func TestASpareWatchdogRunsTheCommand(t *testing.T) {
	lock := held(t, time.Hour)
	var s *spare
	var w *watched
	for deadline := time.Now().Add(limit); w == nil && time.Now().Before(deadline); {
		s, _ = newSpareFor(t, time.Hour)
		w = s.take() // unless its time was up
	}
	if w == nil || s.take() != nil {
		t.Fatalf("%+v was taken, and then again", w)
	}
	s.drop() // which it is not for any more
	w.startBy = clock.Now() + limit
	out := t.TempDir() + "/x"
	over, err := w.follow(lock, watchdog.Job{Args: []string{"sh", "-c", "echo done >" + out}, TTL: time.Hour}, nil,
		func(watchdog.Report) {})
	if err != nil || over.How.ExitStatus() != 0 {
		t.Fatalf("%+v, %v", over, err)
	}
	if text, err := os.ReadFile(out); string(text) != "done\n" {
		t.Errorf("%q, %v", text, err)
	}
	w.close()
	w.ends(t)
}

// It is not kept for a command that has to wait, and if it is not needed it ends, also if it was
// stopped.
func TestASpareWatchdogIsDropped(t *testing.T) {
	for _, ttl := range []time.Duration{time.Hour, 100 * time.Millisecond} {
		s, w := newSpareFor(t, ttl)
		w.process.Signal(syscall.SIGSTOP)
		w.ends(t) // by itself
		if s.take() != nil {
			t.Error("one was taken that had ended")
		}
	}
	s, w := newSpareFor(t, time.Hour)
	w.process.Signal(syscall.SIGSTOP)
	s.drop()
	select {
	case <-w.gone:
	default:
		t.Error("one that was dropped was not waited for")
	}
	if s.take() != nil {
		t.Error("one was taken that was dropped")
	}
}

// One that was killed meanwhile is none.
func TestASpareWatchdogIsKilled(t *testing.T) {
	s, w := newSpareFor(t, time.Hour)
	w.process.Kill()
	w.ends(t)
	if s.take() != nil {
		t.Error("one was taken that had ended")
	}
	var none *spare
	none.drop()
	if none.take() != nil {
		t.Error("there was one")
	}
}

// A start without time for a slow one does not end what others start meanwhile: those of a shell
// that has become fenlock.
func TestASpareWatchdogEndsNobodyElse(t *testing.T) {
	// No shell builtin, and not for longer than this process is there.
	other := exec.Command("sh", "-c", `while kill -0 $PPID 2>/dev/null; do env true || echo killed; done`)
	out, err := other.StdoutPipe()
	must(t, err)
	must(t, other.Start())
	for range 20 {
		newSpare(os.Environ(), time.Microsecond).drop()
	}
	other.Process.Kill()
	if text, err := io.ReadAll(out); len(text) > 0 || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	other.Wait()
}
