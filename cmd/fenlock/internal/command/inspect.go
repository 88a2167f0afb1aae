//go:build linux || darwin || freebsd

package command

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/spf13/cobra"
)

const inspectHelp = `Show one lock: its holder, age, token and waiters, and the answer of each node.

This changes nothing. Exit status: 0; 69 if so few nodes answer and vote that the holder
is unknown; 64 wrong usage.`

func inspectCommand() *cobra.Command {
	var f lookFlags
	cmd := &cobra.Command{
		Use:               "inspect [flags] NAME",
		Short:             "Show one lock, node by node, and its waiters",
		Long:              inspectHelp,
		Args:              oneName("inspect"),
		ValidArgsFunction: completeNames(&f.nodes),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := fenlock.CheckName(args[0]); err != nil {
			return usageError(err)
		}
		return f.look(cmd, func(ctx context.Context, a *admin.Admin, w io.Writer) error {
			l, err := a.Inspect(ctx, args[0])
			if f.json {
				encode(w, lockOf(l, time.Now()))
			} else {
				describe(w, l, time.Now())
			}
			if err == nil && l.State == admin.Unclear {
				return exitf(exitNoQuorum, "inspect %q: so few nodes vote that a client may hold the lock whose lease they have forgotten", printable(l.Name))
			}
			return lookError(err)
		})
	}
	f.register(cmd, true)
	return cmd
}

// oneName insists on one name.
func oneName(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return exitf(exitUsage, "no NAME: fenlock %s [flags] NAME", command)
		case len(args) > 1:
			return exitf(exitUsage, "%q comes after NAME %q: fenlock %s [flags] NAME", args[1], args[0], command)
		}
		return nil
	}
}

// describe prints a lock for people.
func describe(w io.Writer, l admin.LockInfo, now time.Time) {
	switch {
	case l.State == admin.Held:
		fmt.Fprintf(w, "%s is held by %s\n", printable(l.Name), printable(heldBy(l)))
	case l.State == admin.Free && heldBy(l) == "":
		fmt.Fprintf(w, "%s is free\n", printable(l.Name))
	case l.State == admin.Free && len(l.Votes) == 1:
		fmt.Fprintf(w, "%s is free: %s is the next in the queue\n", printable(l.Name), printable(heldBy(l)))
	case l.State == admin.Free:
		fmt.Fprintf(w, "%s is free: %s has leases on too few nodes (it tries to take it, or an attempt has left them)\n",
			printable(l.Name), printable(heldBy(l)))
	default:
		fmt.Fprintf(w, "%s: so few nodes answer and vote that it cannot be said who has it\n", printable(l.Name))
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if !l.Since.IsZero() {
		fmt.Fprintf(table, "  since\t%s, %s ago (by the holder's clock)\n", l.Since.Format(time.DateTime),
			ago(now.Sub(l.Since)))
	}
	if l.Token != 0 {
		fmt.Fprintf(table, "  token\t%s\n", l.Token)
	}
	switch {
	case l.State == admin.Held && l.Bound:
		fmt.Fprintf(table, "  ends\twith the processes that have it\n")
	case l.State == admin.Held && l.Left == 0:
		fmt.Fprintf(table, "  ends\tnever: its lease has no end\n")
	case l.State == admin.Held:
		fmt.Fprintf(table, "  ends\tin %s, unless its holder extends it\n", left(l))
	}
	if len(l.Votes) > 1 {
		fmt.Fprintf(table, "  votes\t%s\n", votes(l))
	}
	table.Flush()
	table = tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, v := range l.Votes {
		fmt.Fprintf(table, "    %s\t%s\n", v.Node, vote(v, l.Bound))
	}
	table.Flush()
	describeShares(w, l, now)
	if l.Waiting == 0 {
		fmt.Fprintln(w, "  the queue is empty")
		return
	}
	fmt.Fprintf(w, "  %d waiting, in order\n", l.Waiting)
	table = tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i, q := range l.Waiters {
		fmt.Fprintf(table, "    %d.\t%s\tfor %s\n", i+1, printable(orDash(q.Label)), ago(q.Waited))
	}
	table.Flush()
	if n := l.Waiting - len(l.Waiters); n > 0 {
		fmt.Fprintf(w, "    and %d more\n", n)
	}
}

// describeShares prints who shares a lock, in the order in which they came.
func describeShares(w io.Writer, l admin.LockInfo, now time.Time) {
	if len(l.Shares) == 0 {
		return
	}
	count := fmt.Sprint(len(sharing(l)))
	if l.MoreShares {
		count = "at least " + count
	}
	fmt.Fprintf(w, "  shared by %s", count)
	if l.Slots > 0 {
		fmt.Fprintf(w, " of %d slots (%s#0 to %s#%d)", l.Slots, printable(l.Name), printable(l.Name), l.Slots-1)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, s := range l.Shares {
		ends := "no end"
		switch {
		case s.Nodes <= len(l.Votes)/2:
			ends = "on too few nodes"
		case l.Bound:
			ends = "ends with its processes"
		case s.Left > 0:
			ends = s.Left.Round(100*time.Millisecond).String() + " left"
		}
		fmt.Fprintf(table, "    %s\tfor %s\ttoken %s\t%s\n", printable(orUnknown(s.Label)), since(s.Since, now),
			number(s.Token), ends)
	}
	table.Flush()
}

// vote is what one node says.
func vote(v admin.Vote, bound bool) string {
	lasts := ", which has no end"
	switch {
	case bound:
		lasts = ""
	case v.Left > 0:
		lasts = fmt.Sprintf(", %s left", v.Left.Round(100*time.Millisecond))
	}
	switch {
	case v.Err != nil:
		return "no answer: " + printable(reason(v.Node, v.Err))
	case v.Holds:
		return "has the lease" + lasts
	case v.Reserved:
		return "keeps it for the next in the queue, for a second"
	case v.Leased:
		return fmt.Sprintf("has a lease of %s%s", printable(orDash(v.Label)), lasts)
	case v.Out:
		return "has no lease, and does not vote: it may have forgotten one (fenlock nodes says why)"
	}
	return "has no lease"
}
