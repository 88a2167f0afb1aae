//go:build linux || darwin || freebsd

package command

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
	"github.com/fenlock/fenlock/node"
	"github.com/spf13/cobra"
)

const doctorHelp = `Examine the nodes of the group, and print what is wrong or will go wrong, with the reason
and what to do.

  error    it does not work, or is not safe, until it is repaired
  warning  it works until something else happens
  note     no action is needed

doctor changes nothing on the servers: it admits no server, and takes no lock. It sees
what this machine and this user can see now. It looks at no more than 5000 keys of a
server, and reads all clocks twice, some seconds apart (--for).

Run it where the clients run: round trips and permissions are theirs.

Exit status, for monitoring
  0   nothing, or notes only
  1   warnings
  2   errors, or there is no such file
  64  wrong usage; nothing was sent to any node`

// Exit statuses of doctor.
const (
	exitWarnings = 1
	exitErrors   = 2
)

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	lookFlags
	ttl    time.Duration
	maxTTL time.Duration // 0: not compared
	during time.Duration
	ignore []string
}

func doctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Find what is wrong with the nodes, and what to do",
		Long:  doctorHelp,
		Example: `  fenlock doctor
  fenlock doctor --ttl 3s                          # would that be long enough?
  fenlock doctor --ignore crash --ignore same-host # known, and meant so
  fenlock doctor --json | jq -r '.findings[] | select(.severity == "error") | .advice'`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }
	f.register(cmd, false)
	flags := cmd.Flags()
	flags.DurationVar(&f.ttl, "ttl", fenlock.DefaultTTL, "`time` that clients use as their --ttl")
	flags.DurationVar(&f.maxTTL, "max-ttl", 0, "`time` that clients use as their --max-ttl (default: not compared)")
	flags.DurationVar(&f.during, "for", 2*time.Second, "`time` for which clocks are watched; 0 for not at all")
	flags.StringArrayVar(&f.ignore, "ignore", nil,
		"leave out what this `check`, the word in brackets, has found; repeat it for more")
	return cmd
}

func (f *doctorFlags) check() error {
	switch {
	case f.ttl < fenlock.MinTTL:
		return exitf(exitUsage, "--ttl is %v, at least %v is needed", f.ttl, fenlock.MinTTL)
	case f.maxTTL < 0 || f.maxTTL > 0 && f.maxTTL < f.ttl:
		return exitf(exitUsage, "--max-ttl is %v, it must be at least --ttl, %v", f.maxTTL, f.ttl)
	case f.during < 0 || f.during > time.Hour:
		return exitf(exitUsage, "--for is %v, it must be 0 to 1h", f.during)
	}
	return nil
}

// run looks, prints, and returns an error with the exit status that says how bad it is.
func (f *doctorFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	var found []doctor.Finding
	err := f.look(cmd, func(ctx context.Context, a *admin.Admin, w io.Writer) error {
		g := f.examine(ctx, a)
		found = slices.DeleteFunc(g.Examine(), func(one doctor.Finding) bool { return slices.Contains(f.ignore, one.Check) })
		if v := view(g); f.json {
			encode(w, v.diagnosis(found, statusOf(found)))
		} else {
			io.WriteString(w, v.findings(found))
		}
		return nil
	})
	var exit *exitError
	switch {
	case errors.As(err, &exit) && exit.status == exitNoQuorum: // a file that cannot be opened
		return exitf(exitErrors, "%s", exit.message)
	case err != nil:
		return err
	case len(found) > 0 && statusOf(found) != 0:
		return &exitError{status: statusOf(found)}
	}
	return nil
}

// examine looks closely, and once more at the clocks of the nodes that answer.
func (f *doctorFlags) examine(ctx context.Context, a *admin.Admin) doctor.Group {
	g := doctor.Group{TTL: f.ttl, MaxTTL: f.maxTTL}
	g.Nodes = a.Examine(ctx, node.Look{MaxTTL: f.maxTTL, Thorough: true})
	if f.during > 0 && slices.ContainsFunc(g.Nodes, func(n admin.NodeInfo) bool { return n.Err == nil }) {
		select {
		case <-time.After(f.during):
			g.Later = a.Nodes(ctx)
		case <-ctx.Done():
		}
	}
	return g
}

// statusOf is the exit status for what was found.
func statusOf(found []doctor.Finding) int {
	switch doctor.Worst(found) {
	case node.Error:
		return exitErrors
	case node.Warning:
		return exitWarnings
	}
	return 0
}
