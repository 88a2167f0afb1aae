//go:build linux || darwin || freebsd

// Command fenlock runs a command while it holds a distributed lock:
//
//	fenlock run NAME -- COMMAND [ARG...]
//
// "fenlock run --help" explains the nodes, the exit statuses and the environment.
// It runs on Linux, macOS and FreeBSD. Windows has neither process groups nor
// signals, and so no way to stop a command in time when its lock is lost.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

func init() {
	// The command is to die with its watchdog (Pdeathsig), but the kernel takes the
	// *thread* that started it for its parent. Locked in init, the main goroutine
	// stays on the main thread, which lives as long as the process.
	runtime.LockOSThread()
}

func main() {
	if isWatchdog() {
		os.Exit(watchdogMain())
	}
	// Caught, so that a write to a closed pipe is an error and not the end:
	// "fenlock run ... 2>&1 | head" must still release the lock. Not ignored:
	// the command would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	code := status(rootCommand().Execute())
	stderr.flush()
	os.Exit(code)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "fenlock",
		Short: "A distributed lock, for the command line",
		Long: `fenlock runs a command while it holds a lock that all machines agree on: by
majority over independent Valkey or Redis servers, or, with nothing to set up,
among the processes of one machine.

Start with: fenlock run --help`,
		Version:       versionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.Flags().BoolP("version", "V", false, "print the version")
	root.PersistentFlags().BoolVarP(&quiet, "quiet", "q", false, "print nothing on stderr but errors")
	root.AddCommand(runCommand(), lsCommand(), inspectCommand(), releaseCommand(), uiCommand(), versionCommand())
	readVariables(root)
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), versionLine())
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("fenlock %s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version returns the version of the module that was built, "devel" for a build
// from a working tree.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
