//go:build linux || darwin || freebsd

// Package command is the command line: the subcommands, their flags and their help. Two programs
// have it. fenlock starts with every locked command and so is small. fenlock-all also has the
// engines and subcommands that link large libraries (Extras).
package command

import (
	"fmt"
	"os"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/light"
	"github.com/spf13/cobra"
)

// Main runs the program with its arguments, and exits. It is fenlock without extras, and
// fenlock-all with them.
func Main(linked *Extras) {
	only := needed(os.Args[1:])
	startLight(only)
	link(linked)
	if err := checkHandedOver(); err != nil {
		os.Exit(status(err))
	}
	if only != "run" { // which seldom prints
		catchPipe()
	}
	root, out := rootCommand(only), &printed{w: os.Stdout}
	root.SetOut(out)
	err := root.Execute()
	if err == nil && out.err != nil {
		err = cannotPrint(out.err)
	}
	code := status(err)
	stderr.flush()
	os.Exit(code)
}

// subcommands make the subcommands.
var subcommands = []struct {
	name string
	make func() *cobra.Command
}{
	{"run", runCommand}, {"hold", holdCommand}, {"ls", lsCommand}, {"inspect", inspectCommand},
	{"release", releaseCommand},
	{"nodes", nodesCommand}, {"doctor", doctorCommand}, {"ui", uiCommand}, {"acl", aclCommand},
	{"migrate", migrateCommand}, {"demo", demoCommand}, {"version", versionCommand}, {manPages, manCommand},
}

// needed is the name of the subcommand that arguments call, "" if others have to be made too. To
// make all takes a seventh of the time of fenlock version.
func needed(args []string) string {
	for _, s := range subcommands {
		if len(args) > 0 && args[0] == s.name && s.name != manPages {
			return s.name
		}
	}
	return ""
}

// rootCommand makes the command with one of its subcommands, or with all of them for "".
func rootCommand(only string) *cobra.Command {
	var printVersion bool
	root := &cobra.Command{
		Use:   "fenlock",
		Short: "A distributed lock, for the command line",
		Long: `fenlock runs a command while it holds a lock that all machines agree on: by
majority over independent servers (Valkey, Redis, PostgreSQL, MySQL, etcd, ZooKeeper),
or, with nothing to set up, among the processes of one machine.

Start with: fenlock run --help`,
		// Not by cobra's Version, whose template brings a library that doubles the program.
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printVersion {
				fmt.Fprintln(cmd.OutOrStdout(), versionLine())
				return nil
			}
			return cmd.Help()
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(flagError)
	root.Flags().BoolVarP(&printVersion, "version", "V", false, "print the version")
	root.PersistentFlags().BoolVarP(&quiet, "quiet", "q", false, "print nothing on stderr but errors")
	root.CompletionOptions.DisableDefaultCmd = only != "" // which takes as long as all flags
	for _, s := range subcommands {
		if only == "" || only == s.name {
			root.AddCommand(s.make())
		}
	}
	readVariables(root, func() *cobra.Command { return rootCommand("") })
	return root
}

// startLight makes the start of fenlock run cheaper: it starts with each command that is locked,
// and waits from then on. Other subcommands use all processors, and so does one with GOMAXPROCS.
func startLight(only string) {
	if only != "run" && only != "version" || os.Getenv("GOMAXPROCS") != "" {
		light.Undo()
	}
}
