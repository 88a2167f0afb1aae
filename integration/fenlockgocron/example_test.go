package fenlockgocron_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/integration/fenlockgocron"
	"github.com/fenlock/fenlock/node/memnode"
)

// Two hosts have the same job, and one of them runs it. The node is in memory, so that the example
// runs: in production all hosts have the same servers.
func ExampleNewLocker() {
	node := memnode.New("n")
	ran := make(chan string)
	skipped := make(chan error)
	for _, host := range []string{"a", "b"} {
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node.Share()}})
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close()
		locks, err := fenlockgocron.NewLocker(locker, 5*time.Second)
		if err != nil {
			log.Fatal(err)
		}
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locks))
		if err != nil {
			log.Fatal(err)
		}
		defer scheduler.Shutdown()
		_, err = scheduler.NewJob(
			gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			gocron.NewTask(locks.Work("report", func(ctx context.Context, token fence.Token) error {
				ran <- host
				return nil
			})),
			gocron.WithName("report"),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, name string, err error) { skipped <- err })),
		)
		if err != nil {
			log.Fatal(err)
		}
		scheduler.Start()
	}
	<-ran
	<-skipped
	fmt.Println("one ran it, one skipped it")
	// Output: one ran it, one skipped it
}

// The host that leads runs all jobs.
func ExampleNewElector() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	elector, err := fenlockgocron.NewElector(locker, "scheduler", fenlock.WithLabel("10.0.0.7:8080"))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	resigned := make(chan error)
	go func() { resigned <- elector.Run(ctx) }()

	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan fence.Token)
	_, err = scheduler.NewJob(
		gocron.DurationJob(50*time.Millisecond),
		gocron.NewTask(elector.Work(func(ctx context.Context, term fence.Token) error {
			select {
			case ran <- term:
			case <-ctx.Done():
			}
			return nil
		})),
	)
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println("it ran with a token:", (<-ran).Valid())

	stop() // the jobs under Work end, and another host leads
	fmt.Println("resigned:", <-resigned)
	if err := scheduler.Shutdown(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// it ran with a token: true
	// resigned: <nil>
}
