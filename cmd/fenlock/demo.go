//go:build linux || darwin || freebsd

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/demo"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/demopage"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/ui"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/watchdog"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// readingTime is what a reader gets for half a line.
const readingTime = 400 * time.Millisecond

// openingTime is what somebody has to open the page before the first scene.
const openingTime = time.Minute

func demoCommand() *cobra.Command {
	var list bool
	var page string
	cmd := &cobra.Command{
		Use:   "demo [flags] [SCENE]",
		Short: "Play what people argue about, with real servers and processes",
		Long: `Play the scenes that people argue about when they argue about distributed locks,
all of them or one: a queue, servers that are down, a holder that is stopped
beyond its lease, a server that forgets, clocks that jump, a rolling restart.

The demo starts everything itself, on the loopback address and in a temporary
folder: Valkey or Redis servers, and client processes, which it kills and stops.
All of it has ended and is removed when the demo is over, also after Ctrl-C. It
touches nothing else: no lock of yours, and no FENLOCK_NODES.

It needs valkey-server, or redis-server from version 7 on, in the PATH. Without,
it plays what can be played without.

With --page it prints an address, waits up to a minute until that is opened in a
browser, and draws what happens there, too: who has the lock, and who believes so.

Exit status
  0   each scene went as told: the demo checks what it claims
  1   one did not, or could not be played
  64  wrong usage; 128 plus the number of the signal that ended it`,
		Example: `  fenlock demo           # all scenes, in about a minute and a half
  fenlock demo --list
  fenlock demo paused    # what a fencing token is for
  fenlock demo --page    # the same in a browser`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for _, s := range demo.Scenes() {
				names = append(names, s.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			scenes := demo.Scenes()
			if list {
				for i, s := range scenes {
					fmt.Fprintf(cmd.OutOrStdout(), "%d  %-12s%s\n", i+1, s.Name, s.Title)
				}
				return nil
			}
			if len(args) > 0 {
				scene, err := demo.Find(args[0])
				if err != nil {
					return exitf(exitUsage, "%v", err)
				}
				scenes = []demo.Scene{scene}
			}
			var on *demopage.Page
			if cmd.Flags().Changed("page") {
				l, err := demopage.Listen(page)
				if err != nil {
					return exitf(exitUsage, "--page: %v", err)
				}
				on = demopage.New(scenes)
				defer on.Serve(l)()
				fmt.Fprintf(cmd.OutOrStdout(), "The page is %s\n\n", ui.URL(l.Addr(), "", ""))
			}
			return playDemo(scenes, on)
		},
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the scenes")
	cmd.Flags().StringVar(&page, "page", "", "draw it on a page, too, at this loopback `address`; by default any port that is free")
	cmd.Flags().Lookup("page").NoOptDefVal = demopage.DefaultAddress
	byHand(cmd, "page")
	cmd.AddCommand(&cobra.Command{
		Use: "client", Hidden: true, Args: cobra.NoArgs,
		Short: "A client process of a scene, which fenlock demo starts",
		RunE: func(*cobra.Command, []string) error {
			if err := demo.RunClient(os.Stdin, os.Stdout); err != nil {
				return exitf(exitUsage, "%v", err)
			}
			return nil
		},
	})
	return cmd
}

// playDemo plays scenes in the terminal, and on a page if there is one.
func playDemo(scenes []demo.Scene, page *demopage.Page) error {
	self, err := os.Executable()
	if err != nil {
		return exitf(1, "%v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	watchdog.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		sig := <-signals
		signal.Stop(signals) // whoever cannot wait for the end sends a second one
		cancel(endedBy{sig.(syscall.Signal)})
	}()
	screen := demo.Terminal{Out: os.Stdout, Colour: colourful()}
	player := demo.Player{
		Client: []string{self, "demo", "client"},
		Beat:   readingTime,
		Emit: func(e demo.Event) {
			if page != nil {
				page.Emit(e)
			}
			if screen.Show(e); screen.Err != nil {
				cancel(screen.Err) // nobody sees it
			}
		},
	}
	if page != nil {
		select {
		case <-page.Opened():
		case <-time.After(openingTime):
		case <-ctx.Done():
		}
	}
	err = player.Play(ctx, scenes...)
	if page != nil {
		page.Finish(ctx)
	}
	var end endedBy
	switch {
	case err == nil:
		fmt.Printf("\nIt went as told. Everything that was started has ended, and is removed.\n")
		return nil
	case errors.As(err, &end):
		return exitf(exitSignal+int(end.signal), "ended by a signal; everything that was started has ended, and is removed")
	}
	return exitf(1, "%v", err)
}

// endedBy is why a demo ends that somebody ends.
type endedBy struct{ signal syscall.Signal }

func (e endedBy) Error() string { return e.signal.String() }

// colourful reports whether standard output shows colours, and may: https://no-color.org.
func colourful() bool {
	return term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
