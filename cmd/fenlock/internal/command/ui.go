//go:build linux || darwin || freebsd

package command

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/listen"
	"github.com/spf13/cobra"
)

const uiHelp = `Show the nodes, the locks, the waiters and what changes, live in a browser.

It prints the address of the page and serves it until Ctrl-C. It asks the nodes once a
second, and every five seconds while no browser shows the page: it keeps for an hour what
it sees (--history). With --history 0 it asks nothing then. With PREFIX, it shows only locks whose names begin with
PREFIX; this is for groups with more than 2,000 locks.

Access
  By default the page is for all users of this machine, and for no other machine. Another
  address needs a token: --make-token makes a token and prints it once, as a part of the
  page's address, and --token-file reads one from the one line of a file. There is no TLS:
  put a proxy in front or, better, use ssh -L 5625:localhost:5625.
  The page answers to its address and to localhost. Name any other host name with --host,
  because any web site could give this machine a name of its own.

Prometheus
  /metrics has the state of nodes and locks, without names of locks. If there is a token,
  the scraper must send it as Authorization: Bearer TOKEN.

Breaking locks
  The page breaks locks only with --allow-release. Then every viewer can break them, and
  there is a token on the loopback interface as well.

Exit status: 0 after Ctrl-C; 64 wrong usage, or the address is in use or not of this machine.`

// What --history can be: a slice of the shortest one has a look in it, and a week is enough to
// find out what happened.
const (
	minHistory = 10 * time.Minute
	maxHistory = 7 * 24 * time.Hour
)

// uiOptions are the flags of ui.
type uiOptions struct {
	nodes        nodeFlags
	listen       string
	tokenFile    string
	fromFile     bool // --token-file was given
	makeToken    bool
	hosts        []string
	allowRelease bool
	history      time.Duration
}

func uiCommand() *cobra.Command {
	var o uiOptions
	cmd := &cobra.Command{
		Use:   "ui [flags] [PREFIX]",
		Short: "Show nodes and locks live in a browser",
		Long:  uiHelp,
		Example: `  fenlock ui
  fenlock ui --allow-release
  fenlock ui --listen 0.0.0.0:5625 --token-file /etc/fenlock/ui-token`,
		Args:        cobra.MaximumNArgs(1),
		Annotations: onlyAll,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.fromFile = cmd.Flags().Changed("token-file")
		prefix := ""
		if len(args) > 0 {
			prefix = args[0]
		}
		return o.run(cmd, prefix)
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.nodes.register(cmd)
	f.DurationVar(&o.history, "history", time.Hour,
		"keep what is seen for this `time`, also while no browser looks; 0 keeps nothing")
	f.StringVar(&o.listen, "listen", listen.PageAddress, "`address` to listen at, HOST:PORT; port 0 is any that is free")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with the token, which only its owner may read")
	f.BoolVar(&o.makeToken, "make-token", false, "make a token, and print it once as a part of the address")
	f.StringArrayVar(&o.hosts, "host", nil,
		"`name` by which browsers ask for the page, beside localhost; repeat it for each")
	f.BoolVar(&o.allowRelease, "allow-release", false,
		"let who looks break locks, too; this makes a token if none is given")
	byHand(cmd, "allow-release")
	return cmd
}

func (o *uiOptions) run(cmd *cobra.Command, prefix string) error {
	for _, name := range o.hosts {
		if strings.Trim(name, ".") == "" || strings.ContainsAny(name, ":/*[]@ ") {
			return exitf(exitUsage, "--host: %q is no name of a host: it has no port, no scheme and no *; addresses need not be given", name)
		}
	}
	if o.history != 0 && (o.history < minHistory || o.history > maxHistory) {
		return exitf(exitUsage, "--history is %v, it must be 0 or %v to %v", o.history, minHistory, maxHistory)
	}
	token, err := o.token()
	if err != nil {
		return err
	}
	nodes, err := o.nodes.existing()
	if err != nil {
		return err
	}
	defer closeAll(nodes)
	page := Page{
		Nodes: nodes, Prefix: prefix, Listen: o.listen, Token: token, AllowRelease: o.allowRelease, History: o.history,
		Hosts: o.hosts, Log: sayError,
		Secret: o.fromFile, // its readers know it
	}
	address, serve, err := extras.Page(page)
	if err != nil {
		return usageError(err)
	}
	ctx, stop := untilSignal(func() { say("the page ends") })
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), address); err != nil {
		stop(nil)
		serve(ctx)
		return exitf(exitNoQuorum, "cannot print the address: %v", err)
	}
	err = serve(ctx)
	if err != nil {
		return exitf(exitNoQuorum, "the page has ended: %v", err)
	}
	return nil
}

// token returns what people have to know who look, "" for nothing.
func (o *uiOptions) token() (string, error) {
	switch {
	case o.fromFile && o.makeToken:
		return "", exitf(exitUsage, "--token-file and --make-token exclude each other")
	case o.fromFile:
		return readToken("--token-file", o.tokenFile)
	case o.makeToken, o.allowRelease:
		// Every user of this machine reaches the loopback, and none of them should be able
		// to break a lock by that alone.
		return rand.Text(), nil
	}
	return "", nil
}

// untilSignal returns a context that ends, after told, with the first signal that ends programs,
// unless that is ignored. A person that cannot wait for the end sends a second one.
func untilSignal(told func()) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	go func() {
		sig := <-signals
		signal.Stop(signals)
		told()
		cancel(endedBy{sig.(syscall.Signal)})
	}()
	return ctx, cancel
}

// endedBy is why what runs until a signal has ended.
type endedBy struct{ signal syscall.Signal }

func (e endedBy) Error() string { return e.signal.String() }
