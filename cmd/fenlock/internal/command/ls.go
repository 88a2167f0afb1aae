//go:build linux || darwin || freebsd

package command

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/fenlock/fenlock/admin"
	"github.com/spf13/cobra"
)

const lsHelp = `List the locks that are held, or that a client tries to acquire.

PATTERN is a name; * in it stands for any text, and ? for one character. A PATTERN that
ends with / stands for all names that begin with it, as in fenlock ui. Without a PATTERN
all locks are listed. A lock is held if a majority of the nodes has its lease; VOTES is
how many have. FOR is its age, by the holder's clock; LEFT is how long it would last if
its holder died now, or "process" if it ends with its holder's processes. fenlock reads
all keys of the servers, a few at a time.

Exit status: 0; 69 if so few nodes answered that the held locks are unknown; 64 wrong
usage.`

func lsCommand() *cobra.Command {
	var f lookFlags
	limit := 1000
	cmd := &cobra.Command{
		Use:   "ls [flags] [PATTERN]",
		Short: "List the locks, their holders and waiters",
		Long:  lsHelp,
		Example: `  fenlock ls 'orders/*'
  fenlock ls --json | jq -r '.locks[] | select(.held_ms > 3600000) | .name'
  fenlock ls --watch`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNames(&f.nodes),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 1 || limit > admin.MaxPage {
			return exitf(exitUsage, "--limit is %d, it must be 1 to %d", limit, admin.MaxPage)
		}
		pattern := "*"
		if len(args) > 0 {
			pattern = args[0]
		}
		if !utf8.ValidString(pattern) {
			return exitf(exitUsage, "PATTERN is not valid UTF-8: %q", pattern)
		}
		return f.look(cmd, func(ctx context.Context, a *admin.Admin, w io.Writer) error {
			return f.list(ctx, a, w, pattern, limit)
		})
	}
	f.register(cmd, true)
	cmd.Flags().IntVar(&limit, "limit", limit, "list this `number` of locks at most")
	return cmd
}

func (f *lookFlags) list(ctx context.Context, a *admin.Admin, w io.Writer, pattern string, limit int) error {
	prefix, matches := compile(pattern)
	page, err := a.ListMatching(ctx, prefix, matches, "", limit)
	shown := page.Locks
	now := time.Now()
	if f.json {
		doc := listDoc{Locks: []lockDoc{}, Nodes: nodeErrors(page.Errors), More: page.After != ""}
		for _, l := range shown {
			doc.Locks = append(doc.Locks, lockOf(l, now))
		}
		encode(w, doc)
		return lookError(err)
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(shown) > 0 {
		fmt.Fprintln(table, "NAME\tSTATE\tHOLDER\tFOR\tLEFT\tTOKEN\tVOTES\tWAITING")
	}
	for _, l := range shown {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(l.Name), l.State, printable(orDash(heldBy(l))),
			since(l.Since, now), left(l), number(l.Token), votes(l), number(l.Waiting))
	}
	table.Flush()
	switch {
	case len(shown) == 0 && err == nil && pattern == "*":
		say("nothing is locked")
	case len(shown) == 0 && err == nil:
		say("no lock matches %q", pattern)
	case page.After != "":
		say("there are more: these are the first %d (--limit)", len(shown))
	}
	if err == nil {
		for _, n := range page.Errors {
			say("node %s", flagNames.Replace(n.String()))
		}
	}
	return lookError(err)
}

// compile returns what the names that a pattern matches begin with, and whether it
// matches one. A pattern that ends with / matches what begins with it.
func compile(pattern string) (prefix string, matches func(string) bool) {
	if strings.HasSuffix(pattern, "/") {
		pattern += "*"
	}
	i := strings.IndexAny(pattern, "*?")
	if i < 0 {
		return pattern, func(name string) bool { return name == pattern }
	}
	text := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
	re := regexp.MustCompile(`(?s)^` + text + `$`)
	return pattern[:i], re.MatchString
}
