//go:build linux || darwin || freebsd

package main

import (
	"fmt"
	"syscall"
	"time"
)

// job is what a watchdog is to run.
type job struct {
	Path       string
	Args, Env  []string
	Foreground bool // fenlock has the terminal on its input, and gives it away
	TTL        time.Duration
}

// order is what fenlock tells its watchdog. It is one of these.
type order struct {
	Job    *job
	Answer *answer
	Gone   bool // the lock is not held any more
	Signal syscall.Signal
}

// answer says how much validity is left. A watchdog counts it from when it asked, so
// that an answer that was long under way is never believed for too long: the clocks of
// two processes need not be compared.
type answer struct {
	Asked uint64
	Left  time.Duration
}

// news is what a watchdog tells fenlock. It is one of these. A watchdog prints nothing
// itself, because nobody may be reading.
type news struct {
	Asks    uint64 // how long is the lock valid?
	Started int    // the command's process id
	Failed  *failed
	Report  *report
	Say     string
	Ended   *ended
}

// failed is a command that was not started.
type failed struct {
	Status  int
	Message string
}

// report is a step that was taken, and the validity left by then.
type report struct {
	Do     step
	Left   time.Duration
	Denied bool // there was somebody whom the signal may not be sent to
}

// ended is how the command ended, and whether it was stopped for the lock's sake.
type ended struct {
	How       syscall.WaitStatus
	Stopped   bool
	Survivors []process // that could not be killed
}

// process is one of the command's.
type process struct {
	Pid  int
	Name string
	Born string // tells it from one that has its id later
}

func (p process) String() string { return fmt.Sprintf("%d (%s)", p.Pid, p.Name) }
