//go:build linux || darwin || freebsd

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// lookFlags are the flags of the subcommands that look at locks.
type lookFlags struct {
	nodes nodeFlags
	json  bool
	watch time.Duration // 0: once
}

const watchEvery = 2 * time.Second

func (f *lookFlags) register(cmd *cobra.Command, watches bool) {
	flags := cmd.Flags()
	flags.SortFlags = false
	f.nodes.register(cmd)
	flags.BoolVar(&f.json, "json", false, "print JSON, for programs (docs/json.md)")
	if watches {
		flags.DurationVar(&f.watch, "watch", 0, "look again and again, each `time`")
		flags.Lookup("watch").NoOptDefVal = watchEvery.String()
	}
}

// look opens the nodes, which it closes in the end, and has f look at them, once or until it is
// ended by hand.
func (f *lookFlags) look(cmd *cobra.Command, print func(ctx context.Context, a *admin.Admin, w io.Writer) error) error {
	if cmd.Flags().Changed("watch") && f.watch < 100*time.Millisecond {
		return exitf(exitUsage, "--watch is %v, at least 100ms is needed", f.watch)
	}
	a, closeAll, err := f.nodes.admin()
	if err != nil {
		return err
	}
	defer closeAll()
	for {
		var page bytes.Buffer // a screen in one write, or it flickers
		err := print(cmd.Context(), a, &page)
		if f.watch > 0 && !f.json && term.IsTerminal(int(os.Stdout.Fd())) {
			fmt.Fprintf(cmd.OutOrStdout(), "\x1b[H\x1b[2J%s  every %v, Ctrl-C ends\n\n", time.Now().Format(time.TimeOnly),
				f.watch)
		}
		if _, failed := cmd.OutOrStdout().Write(page.Bytes()); failed != nil {
			return cannotPrint(failed)
		}
		if f.watch == 0 {
			return err
		}
		if err != nil {
			say("%v", err)
		}
		time.Sleep(f.watch)
		if !f.json {
			fmt.Fprintln(cmd.OutOrStdout())
		}
	}
}

// admin opens the nodes for a look at their locks.
func (f nodeFlags) admin() (a *admin.Admin, done func(), err error) {
	nodes, err := f.existing()
	if err != nil {
		return nil, nil, err
	}
	if a, err = admin.New(nodes); err != nil {
		closeAll(nodes)
		return nil, nil, usageError(err)
	}
	return a, func() { closeAll(nodes) }, nil
}

// openPatience is for how long a look waits for a process that has the file locked while it opens
// it.
const openPatience = 5 * time.Second

// existing is open for a look. It makes no file: one that is not there has no locks.
func (f nodeFlags) existing() ([]fenlock.Node, error) {
	all, err := f.list()
	if err != nil {
		return nil, err
	}
	path := ""
	for _, one := range all {
		if u, err := url.Parse(one.url); err == nil && u.Scheme == "file" {
			if path, err = url.PathUnescape(u.Opaque); err != nil || path == "" {
				path = u.Path
			}
		}
	}
	if all == nil {
		if path, err = defaultFile(); err != nil {
			return nil, err
		}
		if err := earlier(path); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(path); path != "" && errors.Is(err, os.ErrNotExist) {
		return nil, exitf(exitNoQuorum, "there is no file %s: no lock was ever taken in it (--node or %s name other nodes)",
			path, nodesVariable)
	}
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	return f.open(ctx)
}

// lookError is the error of a look, with its status. What was seen all the same has been
// printed.
func lookError(err error) error {
	switch {
	case err == nil:
		return nil
	case isUsage(err):
		return usageError(err)
	}
	return exitf(exitNoQuorum, "%s", flagNames.Replace(err.Error()))
}

// completeNames completes the name of a lock, from what is locked now.
func completeNames(f *nodeFlags) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		const no = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		if become(cmd) != nil {
			return nil, no
		}
		a, done, err := f.admin()
		if err != nil {
			return nil, no
		}
		defer done()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		page, _ := a.List(ctx, begun, "", 100)
		var names []string
		for _, l := range page.Locks {
			// Others choose names: what a shell could not print as it is, it does not get.
			if fenlock.CheckName(l.Name) == nil && printable(l.Name) == l.Name {
				names = append(names, cobra.CompletionWithDesc(l.Name, printable(heldBy(l))))
			}
		}
		return names, no
	}
}
