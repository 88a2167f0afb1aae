//go:build linux || darwin || freebsd

package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const releaseHelp = `Break a lock: take it from its holder.

Only the holder releases a lock. Break it if the holder cannot: it hangs, or its machine
is cut off, and you cannot wait until its lease expires. From then on the holder cannot
extend the lock. It finds out within a third of its TTL, and stops its job; the next
waiter holds the lock at once. Until then both work, and only a token that the resource
checks protects the data. So look first (fenlock inspect NAME), and stop the old job if
you can.

fenlock shows what it will break and asks for confirmation, unless --yes is given. If
less than a majority of the nodes answers and votes, nothing is broken.

Exit status: 0, also if the lock is free; 69 too few nodes; 64 wrong usage; 75 if the
answer was no, or the lock has another holder by now.`

func releaseCommand() *cobra.Command {
	var f lookFlags
	var force, yes bool
	cmd := &cobra.Command{
		Use:               "release --force [flags] NAME",
		Short:             "Break a lock: take it from its holder",
		Long:              releaseHelp,
		Example:           `  fenlock release --force nightly-report`,
		Args:              oneName("release --force"),
		ValidArgsFunction: completeNames(&f.nodes),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if err := fenlock.CheckName(name); err != nil {
			return usageError(err)
		}
		if !force {
			return exitf(exitUsage, "a lock is released by its holder; --force takes it away from the holder")
		}
		if !yes && !term.IsTerminal(int(os.Stdin.Fd())) {
			return exitf(exitUsage, "cannot ask, since the standard input is no terminal: say --yes if you know what it breaks (fenlock inspect shows it)")
		}
		return f.release(cmd, name, yes)
	}
	f.register(cmd, false)
	cmd.Flags().BoolVar(&force, "force", false, "take it away from its holder")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	byHand(cmd, "force", "yes")
	return cmd
}

func (f *lookFlags) release(cmd *cobra.Command, name string, yes bool) error {
	a, done, err := f.nodes.admin()
	if err != nil {
		return err
	}
	defer done()
	ctx := cmd.Context()
	found, err := a.Inspect(ctx, name)
	if err != nil {
		return lookError(err)
	}
	if !yes {
		if heldBy(found) == "" {
			// Not broken all the same: a client that was not seen may have it by now.
			return f.unbroken(cmd, found)
		}
		describe(os.Stderr, found, time.Now())
		fmt.Fprintf(os.Stderr, "Break it? [y/N] ")
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
			return exitf(exitHeld, "nothing was broken")
		}
		now, err := a.Inspect(ctx, name)
		if err != nil {
			return lookError(err)
		}
		if now.Label != found.Label || !now.Since.Equal(found.Since) {
			return exitf(exitHeld, "nothing was broken: meanwhile %s", summary(now))
		}
	}
	return f.broke(cmd, ctx, a, name)
}

func (f *lookFlags) broke(cmd *cobra.Command, ctx context.Context, a *admin.Admin, name string) error {
	b, err := a.ForceRelease(ctx, name)
	if err != nil {
		return lookError(err)
	}
	if b.Token == 0 {
		return f.unbroken(cmd, b.Lock)
	}
	what := summary(b.Lock)
	if heldBy(b.Lock) == "" {
		what = printable(name) + ", which is free as far as the nodes tell"
	}
	var text strings.Builder
	if f.json {
		encode(&text, brokenDoc{lockOf(b.Lock, time.Now()), true, uint64(b.Token)})
	} else {
		fmt.Fprintf(&text, "broken: %s\n", what)
		fmt.Fprintf(&text, "Every token from now on is larger than %s, the old holder's smaller.\n", b.Token)
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), text.String()); err != nil {
		return exitf(exitNoQuorum, "cannot print: %v; broken all the same: %s; every token from now on is larger than %s",
			err, what, b.Token)
	}
	return nil
}

// unbroken says that there was nothing to break.
func (f *lookFlags) unbroken(cmd *cobra.Command, l admin.LockInfo) error {
	if f.json {
		encode(cmd.OutOrStdout(), brokenDoc{Lock: lockOf(l, time.Now())})
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is free\n", printable(l.Name))
	}
	return nil
}

// summary is a lock in one line.
func summary(l admin.LockInfo) string {
	holder := heldBy(l)
	if holder == "" {
		return printable(l.Name) + " is free"
	}
	text := fmt.Sprintf("%s, held by %s", printable(l.Name), printable(holder))
	if l.State != admin.Held {
		text = fmt.Sprintf("%s, of which %s had %s leases", printable(l.Name), printable(holder), votes(l))
	}
	if !l.Since.IsZero() {
		text += " for " + ago(time.Since(l.Since))
	}
	if l.Token != 0 {
		text += ", token " + l.Token.String()
	}
	if l.Waiting > 0 {
		text += fmt.Sprintf(", %d waiting", l.Waiting)
	}
	return text
}
