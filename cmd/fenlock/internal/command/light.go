//go:build linux || darwin || freebsd

package command

import (
	"os"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/light"
)

// startLight makes the start of fenlock run cheaper: it starts with each command that is locked,
// and waits from then on. Other subcommands use all processors, and so does one with GOMAXPROCS.
func startLight(only string) {
	if only != "run" && only != "version" || os.Getenv("GOMAXPROCS") != "" {
		light.Undo()
	}
}
