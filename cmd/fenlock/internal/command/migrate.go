//go:build linux || darwin || freebsd

package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

const migrateHelp = `Create the tables that a database needs for locks, or the bucket of NATS.

Only this command creates them, and it can be repeated: what fenlock has made stays as it
is, and other objects of the same name are an error.
Valkey, Redis, etcd, ZooKeeper, S3 and files need no set-up.

  fenlock migrate --node postgres://owner@db.example/app
  fenlock migrate --node postgres://owner@db.example/app --dry-run | less
  fenlock migrate --node 'nats://owner@n1,n2,n3/LOCKS?replicas=3&sync_interval=always'

Exit status
  0   what a node needs is there
  64  wrong usage
  69  a store cannot be reached, or refuses`

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
		Short: "Make the tables or the bucket that a node needs",
		Long:  migrateHelp,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return migrate(cmd, f, dryRun) },
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the statements or the configuration, and send nothing")
	return cmd
}

func migrate(cmd *cobra.Command, f nodeFlags, dryRun bool) error {
	if all, err := f.list(); err != nil || all == nil {
		return errors.Join(err, exitf(exitUsage, "no nodes: name them by --node or %s", nodesVariable))
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
		say("%s: it has what fenlock needs", n)
	}
	if !found {
		say("none of the nodes needs a set-up")
	}
	return nil
}
