//go:build linux || darwin || freebsd

package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/fenlock/fenlock/node/clock"
)

// isWatchdog reports whether this process is to be a watchdog. Its argument is the
// descriptor of its end of the link: one that was free in fenlock, since what fenlock
// was started with is the command's.
func isWatchdog() bool { return os.Args[0] == watchdogName && len(os.Args) == 2 }

// watchdogMain is the process. It runs on the main thread, whose death is what the
// command's Pdeathsig is about.
func watchdogMain() int {
	descriptor, err := strconv.Atoi(os.Args[1])
	var l *link
	if err == nil {
		syscall.CloseOnExec(descriptor)
		l, err = newLink(os.NewFile(uintptr(descriptor), "fenlock"))
	}
	if err != nil {
		say("%s is started by fenlock run", watchdogName)
		return exitUsage
	}
	nameProcess(watchdogComm)
	// Signals are for the command, which has them from fenlock, or from who takes its
	// parent for that. Caught, not ignored: the command would inherit that.
	notify(make(chan os.Signal, 1), syscall.SIGTSTP, syscall.SIGPIPE)
	signals := make(chan os.Signal, 64)
	notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	adoptOrphans()
	w := watchdog{link: l, orders: receive[order](l), signals: signals}
	w.ask()
	first, more := <-w.orders
	if !more || first.Job == nil || first.Answer == nil {
		return exitUsage
	}
	ttl := first.Job.TTL
	end, _ := w.end(first.Answer)
	if end-clock.Now() <= ttl/termShare {
		// fenlock or this process was paused. A command that would be stopped at
		// once is not started.
		l.send(news{Failed: &failed{Status: exitLost}})
		return 0
	}
	child, err := start(first.Job, func(text string) { l.send(news{Say: text}) })
	if err != nil {
		var exit *exitError
		errors.As(err, &exit)
		l.send(news{Failed: &failed{exit.status, exit.message}})
		return 0
	}
	l.send(news{Started: child.pid})
	s := supervisor{ttl: ttl, child: child, watchdog: &w, end: end}
	how, stopped := s.run()
	over := ended{How: how, Stopped: stopped}
	if stopped {
		over.Survivors = child.survivors()
	}
	l.send(news{Ended: &over})
	return 0
}
