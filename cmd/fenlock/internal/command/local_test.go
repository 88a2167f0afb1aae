//go:build linux || darwin || freebsd

package command

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// If no nodes are named and stderr is no terminal, each subcommand says once that it is about this
// machine only, also with --quiet; unless that is meant.
func TestLocalIsSaid(t *testing.T) {
	h := newHome(t)
	file := filepath.Join(h.state, "fenlock", "locks")
	line := "fenlock: no servers are named (--node, FENLOCK_NODES): " +
		"locks are for your processes on this machine only, in " +
		file + "; --local says that this is meant\n"
	for i, words := range [][]string{
		{"run", "x", "--", "true"}, {"run", "--lead", "x", "--", "true"}, {"run", "--slots", "2", "x", "--", "true"},
		{"ls"}, {"inspect", "x"}, {"nodes"}, {"doctor", "--for", "0"}, {"release", "--force", "--yes", "x"},
	} {
		for j, test := range []struct{ env, flag, said string }{
			{"", "-q", line},
			{"", "--local", ""},
			{"FENLOCK_QUIET=true", "--local=false", line},
			{"FENLOCK_NODES=local", "-q", ""},
			{"FENLOCK_NODES=valkey://127.0.0.1:1", "--local", ""}, // which no server answers
		} {
			if i > 0 && j > 1 {
				break // all go the same way
			}
			h := &home{t: t, state: h.state, env: append(slices.Clone(h.env), test.env)}
			r := h.start(append([]string{"fenlock", words[0], test.flag}, words[1:]...)...)
			r.want(0)
			// ls --local says that nothing is locked, --lead that it leads.
			said := r.stderr.String()
			if strings.Count(said, "this machine") != strings.Count(test.said, "this machine") ||
				!strings.Contains(said, test.said) || test.flag == "-q" && said != test.said {
				t.Errorf("%q %q %q: stderr has %q, want %q", test.env, test.flag, words, said, test.said)
			}
		}
	}
}

// What excludes --local is refused before anything is looked for or started.
func TestLocalExcludes(t *testing.T) {
	h := newHome(t)
	const says = "fenlock: --local is a lock of this machine only: it excludes --node and --nodes-file\n"
	for _, flags := range [][]string{{"--node", "valkey://127.0.0.1:1"}, {"--nodes-file", "/none"}, {"--nodes-file", ""}} {
		for _, words := range [][]string{{"run", "x", "--", "fenlock-no-such-command"}, {"ls"}, {"migrate"}, {"ui"}} {
			args := append(append([]string{"fenlock", words[0], "--local"}, flags...), words[1:]...)
			r := h.start(args...)
			if r.want(64); r.stderr.String() != says {
				t.Errorf("%q: %s", args, &r.stderr)
			}
		}
	}
	h.start("fenlock", "migrate", "--local").want(64, "no nodes: name them")
}
