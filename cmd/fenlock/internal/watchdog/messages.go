//go:build linux || darwin || freebsd

package watchdog

import (
	"syscall"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/processes"
)

// Job is what a watchdog is to run.
type Job struct {
	Args, Env  []string         // a variable once
	Ignored    []syscall.Signal // by the command, as by fenlock when that was started
	Foreground bool             // fenlock has the terminal on its input, and gives it away
	TTL        time.Duration
}

// Order is what fenlock tells its watchdog. It is one of these.
type Order struct {
	Job    *Job // with an Answer
	Answer *Answer
	Gone   bool // the lock is not held any more
	Signal syscall.Signal
}

// Answer says how much validity is left. A watchdog counts it from when it asked. So an answer that
// was long under way is never believed for too long, and the clocks of two processes need not be
// compared.
type Answer struct {
	Asked uint64
	Left  time.Duration
}

// News is what a watchdog tells fenlock. It is one of these. A watchdog prints nothing itself,
// because there may be no reader.
type News struct {
	Asks    uint64 // how long is the lock valid?
	Started int    // the command's process id
	Failed  *Failed
	Report  *Report
	Say     string
	// NeedsTerminal is told when the command was stopped because it needs the terminal, and is not
	// in its foreground.
	NeedsTerminal bool
	// Suspended is told when the command was stopped with Ctrl-Z, and its lock need not be
	// extended: fenlock is to be stopped as well.
	Suspended bool
	Ended     *Ended
}

// Failed is a command that was not started, because the lock would not have lasted, or for
// the system's reason.
type Failed struct {
	Late  bool
	Errno syscall.Errno
}

// Report is a step that was taken, and the validity left by then.
type Report struct {
	Do     Step
	Left   time.Duration
	Denied bool // there was a process that the signal may not be sent to
}

// Ended is how the command ended, and whether it was stopped for the lock's sake.
type Ended struct {
	How       syscall.WaitStatus
	Stopped   bool
	Survivors []processes.Process // that could not be killed
}

func (o *Order) fields(c *coder) {
	optional(c, &o.Job, func(j *Job) {
		list(c, &j.Args, c.bytes)
		list(c, &j.Env, c.bytes)
		list(c, &j.Ignored, func(s *syscall.Signal) { number(c, s) })
		c.flag(&j.Foreground)
		number(c, &j.TTL)
	})
	optional(c, &o.Answer, func(a *Answer) {
		number(c, &a.Asked)
		number(c, &a.Left)
	})
	c.flag(&o.Gone)
	number(c, &o.Signal)
}

func (n *News) fields(c *coder) {
	number(c, &n.Asks)
	number(c, &n.Started)
	optional(c, &n.Failed, func(f *Failed) {
		c.flag(&f.Late)
		number(c, &f.Errno)
	})
	optional(c, &n.Report, func(r *Report) {
		number(c, &r.Do)
		number(c, &r.Left)
		c.flag(&r.Denied)
	})
	c.bytes(&n.Say)
	c.flag(&n.NeedsTerminal)
	c.flag(&n.Suspended)
	optional(c, &n.Ended, func(e *Ended) {
		number(c, &e.How)
		c.flag(&e.Stopped)
		list(c, &e.Survivors, func(p *processes.Process) {
			number(c, &p.Pid)
			c.bytes(&p.Name)
			c.bytes(&p.Born)
		})
	})
}
