//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/tests/faults/library"
)

// campaign is what is measured, and what came of it.
type campaign struct {
	ctx                context.Context
	out                io.Writer
	ttl, watch         time.Duration // watch: for how long, after what has happened
	share, beyondShare int           // hundredths of a core of each server
	blamed             string        // the library of which something is wrong
	wrong              []string
	running            atomic.Pointer[testserver.Outside] // has the servers
}

// size is how much is measured.
type size struct {
	locks, processes int
	herd, sharing    int
	herds            int // of each kind
	length           time.Duration
}

var scenes = []string{"held", "processes", "beyond", "herds"}

func main() {
	if isWorker() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	c := &campaign{ctx: ctx, out: out, blamed: library.Fenlock}
	ended := context.AfterFunc(ctx, func() { // workers end with this process
		if t := c.running.Load(); t != nil {
			t.Close()
		}
		os.Exit(1)
	})
	defer ended()
	var s size
	flags := flag.NewFlagSet("overload", flag.ContinueOnError)
	which := flags.String("scenes", strings.Join(scenes, ","), "what to measure")
	with := flags.String("with", library.Fenlock+","+library.Redsync+","+valkeylocks, "whom to measure")
	nodes := flags.String("servers", "3,5", "of a group")
	flags.DurationVar(&c.ttl, "ttl", 10*time.Second, "of all locks")
	flags.IntVar(&c.share, "share", 50, "hundredths of a core that each server gets")
	flags.IntVar(&c.beyondShare, "beyond-share", 5, "the same for too many requests: little, so that the clients are not what is slow")
	flags.IntVar(&s.locks, "locks", 10_000, "that one process holds")
	flags.IntVar(&s.processes, "processes", 2000, "that hold a lock each")
	flags.IntVar(&s.herd, "herd", 500, "clients that want one name")
	flags.IntVar(&s.sharing, "sharing", 100, "clients that share one, or want slots or several names")
	flags.IntVar(&s.herds, "herds", 20, "of each kind")
	flags.DurationVar(&s.length, "length", 30*time.Second, "how long clients ask for more than the servers can do")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c.watch = 2 * c.ttl
	fmt.Fprintf(out, "%d cores, %s; TTL %v; each server has at most %d %% of a core, under too many requests %d %%\n\n",
		runtime.NumCPU(), runtime.Version(), c.ttl, c.share, c.beyondShare)
	fmt.Fprint(out, "| servers | scene | | held, lost | normal after | goodput | requests |\n|---|---|---|---|---|---|---|\n")
	for _, scene := range strings.Split(*which, ",") {
		for _, n := range strings.Split(*nodes, ",") {
			servers := 0
			if _, err := fmt.Sscan(n, &servers); err != nil || servers < 1 {
				return fmt.Errorf("what are %q servers?", n)
			}
			for _, of := range strings.Split(*with, ",") {
				if err := c.scene(scene, servers, of, s); err != nil {
					return fmt.Errorf("%s, %s: %w", scene, of, err)
				}
			}
		}
	}
	if len(c.wrong) > 0 {
		return errors.New(strings.Join(c.wrong, "\n"))
	}
	return nil
}

// scene measures one library.
func (c *campaign) scene(scene string, servers int, of string, s size) error {
	switch scene {
	case "held":
		return c.held(servers, of, 1, s.locks, strikes)
	case "processes":
		return c.held(servers, of, s.processes, 1, strikes[1:2])
	case "beyond":
		return errors.Join(c.beyond(servers, of, 1, 60, s.length), c.beyond(servers, of, 50, 60, s.length))
	case "herds":
		if of == valkeylocks {
			return nil // a lock of one server, which notifies its clients
		}
		for _, kind := range herds {
			clients := s.sharing
			if kind == herdAlone || kind == herdTick {
				clients = s.herd
			} else if of != library.Fenlock {
				continue
			}
			if err := c.herd(servers, of, kind, clients, s.herds); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("what is -scenes %q? There are %s", scene, strings.Join(scenes, ", "))
}

// report prints a row, and notes what must not be. Normal is negative if it was not so in time.
func (c *campaign) report(servers int, scene, of string, held, lost int, normal time.Duration,
	goodput, requests string) {
	locks, after := "", ""
	if held > 0 {
		locks, after = fmt.Sprintf("%d, **%d**", held, lost), normal.Round(100*time.Millisecond).String()
	}
	if normal < 0 {
		after = fmt.Sprintf("not in %v", c.watch)
	}
	fmt.Fprintf(c.out, "| %d | %s | %s | %s | %s | %s | %s |\n", servers, scene, of, locks, after, goodput, requests)
	if lost > 0 {
		c.fail(of, "%d of %d locks are lost: %s, %d servers", lost, held, scene, servers)
	}
}

// fail notes what must not be, if it is of the library that is blamed for it.
func (c *campaign) fail(of, format string, args ...any) {
	if of != c.blamed {
		return
	}
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}
