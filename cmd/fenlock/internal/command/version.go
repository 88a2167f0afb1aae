//go:build linux || darwin || freebsd

package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

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
	from := commit(buildInfo().Settings)
	return fmt.Sprintf("fenlock %s (%s%s, %s/%s)", version(), from, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func buildInfo() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return new(debug.BuildInfo)
	}
	return info
}

// version returns the version of the module that was built, "devel" for a build
// from a working tree.
func version() string {
	if v := buildInfo().Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

// release tells what was built from what was not: the version and, for a build from a clone, the
// commit.
func release() string {
	if from := commit(buildInfo().Settings); from != "" {
		return version() + " (" + strings.TrimSuffix(from, ", ") + ")"
	}
	return version()
}

// published returns a version if others can install it, else "". One of a clone has the commit in
// it, unless that is tagged as a version.
func published(version string, settings []debug.BuildSetting) string {
	if !strings.HasPrefix(version, "v") || strings.Contains(version, "+") {
		return ""
	}
	for _, s := range settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && strings.HasSuffix(version, s.Value[:12]) {
			return ""
		}
	}
	return version
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
