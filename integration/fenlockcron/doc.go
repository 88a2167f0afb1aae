// Package fenlockcron has the schedulers of robfig/cron, on several hosts, run each job on one of
// them: on whichever comes first; the others skip the run.
//
//	jobs, err := fenlockcron.New(ctx, locker, 5*time.Second, cron.DefaultLogger)
//	...
//	report, err := jobs.Job("report", func(ctx context.Context, token fence.Token) error {
//		// ctx ends when the lock is lost; token goes with each write
//	})
//	...
//	scheduler := cron.New()
//	scheduler.AddJob("0 3 * * *", report)
//
// The duration is for how long a run keeps the others away, at least. That includes a run that
// takes a moment, which a host whose clock is late would repeat. It is longer than the clocks of
// the hosts differ, and shorter than the time between two runs.
//
// Jobs that exist already are wrapped:
//
//	once, err := jobs.Wrapper("sweep")
//	...
//	scheduler.AddJob("@hourly", cron.NewChain(cron.Recover(logger), once).Then(sweep))
//
// Such a job has no context. If the lock is lost it goes on, beside the next host's perhaps, and
// only the Logger hears of it.
//
// # What cron does not know
//
// A job of cron has no name, and a lock needs one: the same on all hosts, and another one for each
// job. A Wrapper is for one job. In cron.WithChain, which is for all jobs, they would share the
// name. Of two that are due at the same time, one would be skipped.
//
// Nor has a job an error. The Logger hears what becomes of it. At Info it hears that another host
// has a run, at Error everything else. That is what the job returned, errors that match
// fenlock.ErrNoQuorum while the nodes are down, and fenlock.ErrLost for a run that has lost its
// lock.
//
// Jobs that are due in turns of a duration (@every 5m) count from when their process began, and so
// at other times on each host.
package fenlockcron
