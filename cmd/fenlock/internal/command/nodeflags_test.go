//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestNodesFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode fs.FileMode) string {
		return write(t, filepath.Join(dir, name), text, mode)
	}
	good := file("good", "# the group\n\n valkey://u:secret@a:1 \r\nredis://:se,cret@b:1\n\t# c is away\nrediss://c:1",
		0o600)
	other := file("other", "valkey://a:1\n", 0o400)
	for _, test := range []struct {
		name           string
		args           []string
		list, variable string
		empty          bool // the variable is set, to nothing
		nodes          int
		said           string
	}{
		{name: "flag", args: []string{"--nodes-file", good}, nodes: 3},
		{name: "variable", variable: good, nodes: 3},
		{name: "flag before variable", args: []string{"--nodes-file", good}, variable: "/none", nodes: 3},
		{name: "flag before list", args: []string{"--nodes-file", good}, list: "valkey://a", nodes: 3},
		{name: "nodes before variable", args: []string{"--node", "valkey://a", "--node", "valkey://b"}, variable: good,
			nodes: 2},
		{name: "nodes before both", args: []string{"--node", "valkey://a"}, variable: good, list: "valkey://a", nodes: 1},
		{name: "two flags", args: []string{"--node", "valkey://a", "--nodes-file", good},
			said: "--node and --nodes-file exclude each other"},
		{name: "the flag twice", args: []string{"--nodes-file", good, "--nodes-file", other}, nodes: 1},
		{name: "local", args: []string{"--local"}, nodes: 1},
		{name: "local before the list", args: []string{"--local"}, list: "valkey://a,valkey://b", nodes: 1},
		{name: "local before both", args: []string{"--local"}, list: "valkey://a,valkey://b", variable: good, nodes: 1},
		{name: "not local", args: []string{"--local=false"}, list: "valkey://a,valkey://b", nodes: 2},
		{name: "local and a node", args: []string{"--local", "--node", "valkey://a"},
			said: "--local is a lock of this machine only: it excludes --node"},
		{name: "local and a file", args: []string{"--local", "--nodes-file", good},
			said: "it excludes --node and --nodes-file"},
		{name: "a list that is local", list: " local ", nodes: 1},
		{name: "nodes before local", args: []string{"--node", "valkey://a", "--node", "valkey://b"}, list: "local", nodes: 2},
		{name: "local among nodes", list: "local,valkey://a",
			said: "FENLOCK_NODES: node 1: local is a lock of this machine only, and no node"},
		{name: "another spelling", list: "Local", said: "FENLOCK_NODES: node 1: it has no scheme"},
		{name: "a node that is local", args: []string{"--node", "local"},
			said: "--node: node 1: local is a lock of this machine only, and no node: say --local"},
		{name: "local and a file's variable", list: "local", variable: good,
			said: "FENLOCK_NODES and FENLOCK_NODES_FILE are both set"},
		{name: "local in a file", args: []string{"--nodes-file", file("local", "local\n", 0o600)},
			said: "/local: line 1: local is"},
		{name: "two variables", list: "valkey://a", variable: good,
			said: "FENLOCK_NODES and FENLOCK_NODES_FILE are both set"},
		{name: "no name", args: []string{"--nodes-file", ""}, said: "--nodes-file is set, but empty"},
		{name: "no name in the variable", empty: true, said: "FENLOCK_NODES_FILE is set, but empty"},
		{name: "for all", variable: file("forall", "valkey://u:secret@a:1", 0o644),
			said: "FENLOCK_NODES_FILE: " + dir +
				"/forall has secrets, and others than its owner may open it (mode 0644): chmod 600 " + dir},
		{name: "none", args: []string{"--nodes-file", "/none"}, said: "--nodes-file: /none does not exist"},
		{name: "empty", args: []string{"--nodes-file", file("empty", "", 0o600)}, said: "/empty names no node"},
		{name: "comments", args: []string{"--nodes-file", file("comments", "# valkey://a\n\n", 0o600)},
			said: "/comments names no node"},
		{name: "no URL", args: []string{"--nodes-file", file("words", "# one\nvalkey://a\n:secret@b\n", 0o600)},
			said: "/words: line 3: it has no scheme"},
		{name: "several on a line", args: []string{"--nodes-file",
			file("commas", "valkey://:secret@a:1,valkey://b:1\n", 0o600)}, said: "/commas: line 1: "},
		{name: "a bad URL", args: []string{"--nodes-file", file("bad", "valkey://a\nvalkey://u:secret@b?x=1\n", 0o600)},
			said: "/bad: line 2: the node's URL valkey://b:6379: there is no parameter"},
		{name: "mixed", args: []string{"--nodes-file", file("mixed", "valkey://u:secret@b\nfile:///x\n", 0o600)},
			said: "/mixed: line 2 is a file: a file is of this machine only"},
		{name: "long", args: []string{"--nodes-file", file("long", strings.Repeat("#secret\n", 1<<13+1), 0o600)},
			said: "longer than"},
		{name: "a URL as its name", variable: "valkey://u:secret@a:1", said: "FENLOCK_NODES_FILE is a URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(nodesVariable, test.list) // set first, so that it is put back
			t.Setenv(nodesFileVariable, test.variable)
			if test.list == "" {
				os.Unsetenv(nodesVariable)
			}
			if test.variable == "" && !test.empty {
				os.Unsetenv(nodesFileVariable)
			}
			t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
			var flags nodeFlags
			cmd := &cobra.Command{}
			flags.register(cmd)
			must(t, cmd.ParseFlags(test.args))
			nodes, err := flags.open(t.Context())
			closeAll(nodes)
			var exit *exitError
			errors.As(err, &exit)
			switch {
			case len(nodes) != test.nodes || (exit == nil) != (test.said == ""):
				t.Fatalf("%d nodes, %v", len(nodes), err)
			case exit == nil:
			case exit.status != exitUsage || !strings.Contains(exit.message, test.said):
				t.Errorf("status %d, %q", exit.status, exit.message)
			case strings.Contains(strings.ReplaceAll(exit.message, "secrets", ""), "secret"):
				t.Errorf("the password is in %q", exit.message)
			}
		})
	}
}
