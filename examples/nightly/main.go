// Command nightly is a job that five machines start at the same time of day, and that has to be
// done once.
//
//	go run ./examples/nightly
//	go run ./examples/nightly -without      # and without a lock
//
// Watch the machine whose clock is late: when it begins, the job is long done and no machine is at
// work. It skips all the same, because the lock is kept for a minimum (WithMinHold) that is longer
// than the clocks differ. In a crontab this is one line, without any program (on machines that have
// one time zone):
//
//	FENLOCK_NODES=valkey://10.0.0.1:6379,valkey://10.0.0.2:6379,valkey://10.0.0.3:6379
//	0 2 * * *  /usr/bin/fenlock run -q --no-wait -E 0 --at-least 30s nightly -- ./report
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/examples/internal/stage"
)

// The clocks differ a little, and that of machine 5 is late by more than the job takes. The lock is
// kept for longer.
const (
	differ  = 20 * time.Millisecond
	late    = 500 * time.Millisecond
	takes   = 100 * time.Millisecond
	atLeast = stage.TTL
)

func main() { stage.Main(play, machine) }

// play has two nights, and counts the reports.
func play(ctx context.Context) error {
	machines := []string{"machine 1", "machine 2", "machine 3", "machine 4", "machine 5"}
	for _, night := range []string{"Monday", "Tuesday"} {
		stage.Say("%s, two o'clock:", night)
		at := time.Now().Add(time.Second) // when all of them are there
		err := stage.All(ctx, machines, func(i int) string {
			clock := at.Add(time.Duration(i) * differ)
			if i == len(machines)-1 {
				clock = at.Add(late)
			}
			return "AT=" + clock.Format(time.RFC3339Nano)
		}, func(int) string { return "NIGHT=" + night })
		if err != nil {
			return err
		}
		time.Sleep(time.Until(at.Add(atLeast + 300*time.Millisecond))) // the next night
	}
	reports := stage.Lines("reports")
	if len(reports) != 2 || reports[0] != "Monday" || reports[1] != "Tuesday" {
		return fmt.Errorf("the reports of two nights are %q", reports)
	}
	stage.Say("Two nights, two reports.")
	return nil
}

// machine waits for its time, and does the job unless another one does or did.
func machine(ctx context.Context, name string) error {
	locker, err := stage.Locker(name)
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339Nano, os.Getenv("AT"))
	if err != nil {
		return err
	}
	time.Sleep(time.Until(at))
	if stage.Without {
		return report(name)
	}
	lock, err := locker.TryAcquire(ctx, "examples/nightly", fenlock.WithMinHold(atLeast))
	var held *fenlock.HeldError
	if errors.As(err, &held) {
		stage.Say("  %s skips it: %s has or had it", name, cmp.Or(held.HeldBy, "another one"))
		return nil
	}
	if err != nil {
		return err
	}
	if err := report(name); err != nil {
		return err
	}
	return lock.Release(ctx) // the nodes keep it for the rest of the minimum
}

func report(name string) error {
	stage.Say("  %s makes the report", name)
	time.Sleep(takes)
	return stage.Append("reports", os.Getenv("NIGHT"))
}
