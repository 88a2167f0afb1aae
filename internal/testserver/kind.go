//go:build unix

package testserver

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Kind is a server that speaks the Redis protocol.
type Kind string

// The kinds that tests run on.
const (
	Valkey Kind = "valkey"
	Redis  Kind = "redis"
)

const howToInstall = "run scripts/install-servers.sh (make setup)"

// RequireVariable names the environment variable that lists, separated by
// spaces, the kinds that must be installed ("valkey redis"). Empty: at least one.
const RequireVariable = "TESTSERVER_REQUIRE"

// Kinds returns the installed kinds, Valkey first. It fails the test if there is
// none, or if one is missing that RequireVariable lists.
func Kinds(t testing.TB) []Kind {
	t.Helper()
	var kinds []Kind
	have := installed()
	for _, kind := range []Kind{Valkey, Redis} {
		if have[kind] != "" {
			kinds = append(kinds, kind)
		}
	}
	for _, word := range strings.Fields(os.Getenv(RequireVariable)) {
		switch kind := Kind(word); kind {
		case Valkey, Redis:
			if have[kind] == "" {
				t.Fatalf("%s lists %s, which is not installed: %s", RequireVariable, kind, howToInstall)
			}
		default:
			t.Fatalf("%s lists %q: it knows %q and %q", RequireVariable, word, Valkey, Redis)
		}
	}
	if len(kinds) == 0 {
		t.Fatalf("neither valkey-server nor redis-server is installed: %s", howToInstall)
	}
	return kinds
}

// Each runs test as a subtest on every installed kind. See Kinds.
func Each(t *testing.T, test func(t *testing.T, kind Kind)) {
	t.Helper()
	for _, kind := range Kinds(t) {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// installed returns the path of the program of each installed kind.
var installed = sync.OnceValue(func() map[Kind]string {
	paths := map[Kind]string{}
	for _, kind := range []Kind{Valkey, Redis} {
		path, err := exec.LookPath(string(kind) + "-server")
		if err != nil {
			continue
		}
		// Valkey installs itself under the name redis-server too, if asked to.
		version, err := exec.Command(path, "--version").Output()
		if err == nil && strings.HasPrefix(strings.ToLower(string(version)), string(kind)) {
			paths[kind] = path
		}
	}
	return paths
})
