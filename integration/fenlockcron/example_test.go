package fenlockcron_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/integration/fenlockcron"
	"github.com/fenlock/fenlock/node/memnode"
)

// The node is in memory, so that the example runs: in production all hosts have the same servers.
func Example() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	jobs, err := fenlockcron.New(ctx, locker, 500*time.Millisecond, nil)
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan fence.Token, 1)
	report, err := jobs.Job("report", func(ctx context.Context, token fence.Token) error {
		select {
		case ran <- token: // it would write with the token
		case <-ctx.Done(): // the lock is lost, or the program stops
		}
		return ctx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}

	scheduler := cron.New()
	if _, err := scheduler.AddJob("@every 1s", report); err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println("it ran with a token:", (<-ran).Valid())
	<-scheduler.Stop().Done()
	// Output: it ran with a token: true
}

// A job that exists already, without a context.
func ExampleJobs_Wrapper() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	jobs, err := fenlockcron.New(context.Background(), locker, 5*time.Second, nil)
	if err != nil {
		log.Fatal(err)
	}
	once, err := jobs.Wrapper("sweep")
	if err != nil {
		log.Fatal(err)
	}
	sweep := cron.NewChain(once).Then(cron.FuncJob(func() { fmt.Println("swept") }))
	sweep.Run()
	sweep.Run() // within 5 s, as on a host whose clock is late
	// Output: swept
}
