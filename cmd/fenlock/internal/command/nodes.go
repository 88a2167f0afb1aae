//go:build linux || darwin || freebsd

package command

import (
	"context"
	"io"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
	"github.com/spf13/cobra"
)

const nodesHelp = `Show the nodes of the group: which of them vote, and why the others do not.

  votes          it answers, and its vote counts
  ready          it votes from the next request for a lock on
  out            it has lost its memory, or may have, and has to wait
  down           no answer, or an error that may pass
  misconfigured  waiting does not help: see fenlock doctor

fenlock asks all nodes at once, and waits two seconds for a node that hangs. It changes
nothing on them, and admits no server.

Exit status: 0, whatever the nodes do (fenlock doctor is for monitoring); 69 there is no such
file; 64 wrong usage.`

func nodesCommand() *cobra.Command {
	var f lookFlags
	cmd := &cobra.Command{
		Use:   "nodes [flags]",
		Short: "Show the nodes: which of them vote, and why the others do not",
		Long:  nodesHelp,
		Example: `  fenlock nodes
  fenlock nodes --watch
  fenlock nodes --json | jq -r '.nodes[] | select(.state != "votes") | .node'`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.look(cmd, func(ctx context.Context, a *admin.Admin, w io.Writer) error {
			v := view(doctor.Group{Nodes: a.Nodes(ctx)})
			if f.json {
				encode(w, v.document())
				return nil
			}
			_, err := io.WriteString(w, v.text())
			return err
		})
	}
	f.register(cmd, true)
	return cmd
}
