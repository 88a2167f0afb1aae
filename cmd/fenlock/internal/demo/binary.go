//go:build linux || darwin || freebsd

package demo

import (
	"os/exec"
	"regexp"
	"strconv"
	"sync"
)

// binary is an installed server.
type binary struct{ kind, version, path string }

// versionPattern is of what servers say of themselves. Each command would pay for it, if it
// were made when the program starts.
var versionPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(Valkey|Redis) server v=((\d+)\.[0-9.]+)`)
})

// String returns kind and version: "Valkey 8.0.1".
func (b *binary) String() string { return b.kind + " " + b.version }

// findBinary returns the server that is installed, Valkey if both are, or nil: also
// where there is only a Redis that is too old.
func findBinary() *binary {
	for _, name := range []string{"valkey-server", "redis-server"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		text, err := exec.Command(path, "--version").Output()
		// Either may be installed under the other's name.
		m := versionPattern().FindSubmatch(text)
		if err != nil || m == nil {
			continue
		}
		if major, _ := strconv.Atoi(string(m[3])); string(m[1]) == "Valkey" || major >= 7 {
			return &binary{string(m[1]), string(m[2]), path}
		}
	}
	return nil
}
