// Package fenlockgocron has the schedulers of gocron, on several hosts, run each job on one of
// them.
//
// With a Locker each run of a job is on whichever host comes first; the others skip it:
//
//	locks, err := fenlockgocron.NewLocker(locker, 5*time.Second)
//	...
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locks))
//	...
//	scheduler.NewJob(gocron.CronJob("0 3 * * *", false),
//		gocron.NewTask(locks.Work("report", func(ctx context.Context, token fence.Token) error {
//			// ctx ends when the lock is lost; token goes with each write
//		})),
//		gocron.WithName("report"))
//
// The second argument of NewLocker is for how long a run keeps the others away, at least. That
// includes a run that takes a moment, which a host whose clock is late would repeat. It is longer
// than the clocks of the hosts differ, and shorter than the time between two runs.
//
// With an Elector one host runs all jobs until it goes:
//
//	elector, err := fenlockgocron.NewElector(locker, "scheduler")
//	...
//	go elector.Run(ctx)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//	...
//	scheduler.NewJob(gocron.CronJob("0 3 * * *", false), gocron.NewTask(elector.Work(report)))
//
// A caller of leader.Follow for the Elector's name hears where the jobs run. When another host
// begins to lead, a run may be missed; or be repeated there, if its clock is late. With both,
// gocron asks the Elector only, and what Locker.Work returns does not run.
//
// # What gocron does not pass on
//
// A job gets no lock from gocron, so that it would go on after the lock is lost. Work is for that:
// it gives the job a context that ends with the lock, and the token.
//
// A Locker's lock has the name of its job, which all hosts need to agree on: give one with
// gocron.WithName. Without it the name is that of the function. For a func literal it changes with
// the program, and is the same for all that Work returns.
//
// Jobs that are due in turns of a duration (gocron.DurationJob) count from when their process
// began. gocron.WithStartAt has all hosts count from the same time.
//
// Why a run was skipped is told to gocron.AfterLockError: an error that matches fenlock.ErrHeld for
// another host's run, fenlock.ErrNoQuorum while the nodes are down. What Work returns has failed if
// the lock was lost: gocron.AfterJobRunsWithError hears of it, of an error that matches
// fenlock.ErrLost.
package fenlockgocron
