//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// readingTime is what a reader gets for half a line.
const readingTime = 600 * time.Millisecond

// scenes are those of package demo, which only fenlock-all has (TestTheHelpHasTheScenes).
var scenes = [][2]string{
	{"paused", "a holder is stopped beyond its lease, and writes when it wakes up"},
	{"restart", "a server crashes, and comes back empty"},
	{"outage", "two of five servers are down, and then three"},
}

func demoCommand() *cobra.Command {
	long, names := demoHelp, []string(nil)
	for _, s := range scenes {
		long += fmt.Sprintf("  %-9s %s\n", s[0], s[1])
		names = append(names, s[0])
	}
	cmd := &cobra.Command{
		Use:   "demo [SCENE]",
		Short: "Play what people argue about, with real servers and processes",
		Long:  long + demoExit,
		Example: `  fenlock demo           # all scenes, in about a minute and a half
  fenlock demo paused    # what a fencing token is for`,
		Args:        cobra.MaximumNArgs(1),
		Annotations: onlyAll,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !slices.Contains(names, args[0]) {
				return exitf(exitUsage, "there is no scene %q: the scenes are %s", args[0], strings.Join(names, ", "))
			}
			return playDemo(args)
		},
		DisableFlagsInUseLine: true,
	}
	cmd.AddCommand(&cobra.Command{
		Use: "client", Hidden: true,
		Short:       "A client process of a scene, which fenlock demo starts",
		Annotations: onlyAll,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := extras.DemoClient(args, os.Stdin, os.Stdout); err != nil {
				return exitf(exitUsage, "%v", err)
			}
			return nil
		},
	})
	return cmd
}

const demoHelp = `Play the scenes that arguments about distributed locks are about, all or one.

The demo starts its own Valkey or Redis servers and client processes, on the loopback
address and in a temporary folder, and kills and stops them. When it ends, also after
Ctrl-C, it removes all of them. It uses neither your locks nor FENLOCK_NODES. While a
scene runs, "fenlock ui" in another terminal shows its servers: each scene prints the
command.

It needs valkey-server, or redis-server from version 7 on, in the PATH.

Scenes
`

const demoExit = `
Exit status
  0   each scene showed what it claims, which the demo checks
  1   a scene went another way, or there is no server
  64  wrong usage; 128 plus the number of the signal that ended it`

// playDemo plays scenes in the terminal, all of them without a name.
func playDemo(names []string) error {
	self, err := os.Executable()
	if err != nil {
		return exitf(1, "%v", err)
	}
	ctx, cancel := untilSignal(func() {})
	show := Show{
		Scenes: names, Client: []string{self, "demo", "client"}, Beat: readingTime, Out: os.Stdout, Colour: colourful(),
		Unseen: cancel,
	}
	err = extras.Demo(ctx, show)
	if end, is := errors.AsType[endedBy](err); is {
		return exitf(exitSignal+int(end.signal), "ended by a signal; everything that was started has ended, and is removed")
	} else if err != nil {
		return exitf(1, "%v", err)
	}
	fmt.Printf("\nIt went as told. Everything that was started has ended, and is removed.\n")
	return nil
}

// colourful reports whether standard output shows colours, and may: https://no-color.org.
func colourful() bool {
	return term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
