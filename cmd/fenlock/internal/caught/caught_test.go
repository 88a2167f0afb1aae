//go:build linux || darwin || freebsd

package caught

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// those are what fenlock asks for.
var those = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1,
	syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGCHLD, syscall.SIGTTOU}

func send(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		t.Fatal(err)
	}
}

// await returns when a signal has come, whichever came before it.
func await(c <-chan os.Signal, sig syscall.Signal) {
	for got := range c {
		if got == sig {
			return
		}
	}
}

func TestEachSignalComesToAllThatAskedForIt(t *testing.T) {
	first, second := make(chan os.Signal, 64), make(chan os.Signal, 64)
	Notify(first, those...)
	Notify(second, syscall.SIGUSR1, syscall.SIGCONT)
	for _, sig := range those {
		if signal.Ignored(sig) { // as below nohup
			continue
		}
		send(t, sig)
		await(first, sig)
	}
	send(t, syscall.SIGUSR1)
	await(second, syscall.SIGUSR1)
	await(second, syscall.SIGUSR1) // the one of before, and this
	await(first, syscall.SIGUSR1)
}

// A leader asks again at each of its terms.
func TestChannelThatAsksAgainIsToldOnce(t *testing.T) {
	c := make(chan os.Signal, 64)
	for range 3 {
		Notify(c, syscall.SIGUSR1, syscall.SIGUSR2)
	}
	send(t, syscall.SIGUSR1)
	await(c, syscall.SIGUSR1)
	send(t, syscall.SIGUSR2) // told after SIGUSR1 was told to all
	if got := <-c; got != syscall.SIGUSR2 {
		t.Errorf("%v, again", got)
	}
}

// The handler interrupts whatever a thread does, and changes nothing of it.
func TestWorkGoesOnBelowSignals(t *testing.T) {
	c := make(chan os.Signal, 1)
	Notify(c, syscall.SIGUSR2)
	stop := make(chan struct{})
	var working, done sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		working.Add(1)
		done.Go(func() {
			sum, text, once := 0.0, "", sync.OnceFunc(working.Done)
			for n := 1; ; n++ {
				if sum += 1 / float64(n%7+1); n%7 != 0 {
					continue
				}
				once()
				if want := 1 + 1/2. + 1/3. + 1/4. + 1/5. + 1/6. + 1/7.; sum < want-1e-9 || sum > want+1e-9 {
					t.Errorf("%v after %d", sum, n)
				}
				sum = 0
				if text += "x"; len(text) > 100 {
					text = ""
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	working.Wait()
	for range 1000 {
		send(t, syscall.SIGUSR2)
		await(c, syscall.SIGUSR2)
	}
	close(stop)
	done.Wait()
}

// No more signals fit into a pipe that is not read, nor into a channel. That holds nothing up.
func TestFloodIsNotWaitedFor(t *testing.T) {
	full, c := make(chan os.Signal), make(chan os.Signal, 1)
	Notify(full, syscall.SIGUSR1)
	Notify(c, syscall.SIGUSR2)
	for range 100_000 {
		send(t, syscall.SIGUSR1)
	}
	for {
		send(t, syscall.SIGUSR2)
		select {
		case <-c:
			return
		default:
			runtime.Gosched()
		}
	}
}

// What is started has no handlers, and what was ignored stays so.
func TestCommandHasTheSignalsThatItWouldHave(t *testing.T) {
	Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
	err := exec.Command("sh", "-c", "kill -USR1 $$; exit 3").Run()
	exit, ok := err.(*exec.ExitError)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGUSR1 {
		t.Errorf("a command that is sent a signal: %v", err)
	}
	signal.Ignore(syscall.SIGALRM)
	defer signal.Reset(syscall.SIGALRM)
	Notify(make(chan os.Signal, 1), syscall.SIGALRM)
	err = exec.Command("sh", "-c", "kill -ALRM $$; exit 3").Run()
	if exit, ok = err.(*exec.ExitError); !ok || exit.ExitCode() != 3 {
		t.Errorf("a command that ignores a signal: %v", err)
	}
}
