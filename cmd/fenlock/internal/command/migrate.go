//go:build linux || darwin || freebsd

package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

const migrateHelp = `Create the tables that a database needs for locks.

Only this command creates tables, and it can be repeated: existing tables of fenlock stay
as they are, and other objects of the same name are an error.
Valkey, Redis, etcd, ZooKeeper and files need no set-up.

  fenlock migrate --node postgres://owner@db.example/app
  fenlock migrate --node postgres://owner@db.example/app --dry-run | less

Exit status
  0   the tables are there
  64  wrong usage
  69  a database cannot be reached, or refuses`

// migrateTimeout bounds what is done to one database.
const migrateTimeout = time.Minute

// migrator is an engine whose store has to be set up.
type migrator interface {
	Migrate(ctx context.Context) error
	Schema() string
}

func migrateCommand() *cobra.Command {
	var f nodeFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables that a database needs",
		Long:  migrateHelp,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return migrate(cmd, f, dryRun) },
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the statements, and send nothing")
	return cmd
}

func migrate(cmd *cobra.Command, f nodeFlags, dryRun bool) error {
	if all, err := f.list(); err != nil || all == nil {
		return errors.Join(err, exitf(exitUsage, "no nodes: name databases by --node or %s", nodesVariable))
	}
	nodes, err := f.open(cmd.Context())
	if err != nil {
		return err
	}
	defer closeAll(nodes)
	found := false
	for _, n := range nodes {
		m, ok := n.Engine().(migrator)
		if !ok {
			continue
		}
		found = true
		if dryRun {
			fmt.Fprintln(cmd.OutOrStdout(), m.Schema())
			continue
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), migrateTimeout)
		err := m.Migrate(ctx)
		cancel()
		if err != nil {
			return exitf(exitNoQuorum, "%s", flagNames.Replace(err.Error()))
		}
		say("%s: fenlock's tables are there", n)
	}
	if !found {
		say("none of the nodes needs tables")
	}
	return nil
}
