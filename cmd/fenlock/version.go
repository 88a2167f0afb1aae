//go:build linux || darwin || freebsd

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

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
	from := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		from = commit(info.Settings)
	}
	return fmt.Sprintf("fenlock %s (%s%s, %s/%s)", version(), from, runtime.Version(), runtime.GOOS, runtime.GOARCH)
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

// commit says which one was built, and whether its files had been changed. What go
// install gets from a module proxy does not know: its version says it.
func commit(settings []debug.BuildSetting) string {
	revision, changed := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	if revision == "" {
		return ""
	}
	return fmt.Sprintf("commit %.12s%s, ", revision, changed)
}
