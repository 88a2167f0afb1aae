//go:build linux || darwin || freebsd

package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestOpenNodes(t *testing.T) {
	file := "sqlite://" + t.TempDir() + "/a.db"
	for _, test := range []struct {
		name     string
		flags    nodeFlags
		variable string
		empty    bool // the variable is set, to nothing
		nodes    int
		status   int
		said     string
	}{
		{name: "flags", flags: nodeFlags{urls: []string{"valkey://a:1", "redis://b:1", "rediss://c:1"}}, nodes: 3},
		{name: "the variable", variable: " valkey://a:1, valkey://b:1 ,valkey://c:1", nodes: 3},
		{name: "flags go first", flags: nodeFlags{urls: []string{file}}, variable: "valkey://a:1,valkey://b:1", nodes: 1},
		{name: "a hole", variable: "valkey://a:1,,valkey://c:1", status: 64, said: "FENLOCK_NODES: node 2: it is empty"},
		// A machine that lost its configuration must not lock for itself alone.
		{name: "set, but empty", variable: " ", status: 64, said: "FENLOCK_NODES is set, but empty"},
		// What an undefined variable in a unit file leaves.
		{name: "set to nothing", empty: true, status: 64, said: "FENLOCK_NODES is set, but empty"},
		{name: "nothing but a comma", variable: ",", status: 64, said: "node 1: it is empty"},
		{name: "no scheme", flags: nodeFlags{urls: []string{"a:1"}}, status: 64, said: "--node: node 1: it has no scheme"},
		{name: "unknown scheme", variable: "http://u:secret@a:1", status: 64, said: `unknown scheme "http"`},
		{name: "a comma in a password", variable: "valkey://u:x,secret@a:1", status: 64, said: "%2C"},
		{name: "port", variable: "valkey://u:secret@a:port", status: 64, said: "cannot be parsed"},
		{name: "mixed", variable: file + ",valkey://u:secret@a:1", status: 64, said: "node 2 is Valkey, and the first node is SQLite"},
		{name: "no such folder", flags: nodeFlags{urls: []string{"sqlite://" + t.TempDir() + "/typo/a.db"}}, status: 69, said: "/typo does not exist"},
		{name: "prefix", flags: nodeFlags{urls: []string{file}, prefixSet: true}, status: 64, said: "--prefix"},
		{name: "prefix with the default file", flags: nodeFlags{prefixSet: true}, status: 64, said: "--prefix"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(nodesVariable, test.variable) // set first, so that it is put back
			if test.variable == "" && !test.empty {
				os.Unsetenv(nodesVariable)
			}
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			nodes, err := test.flags.open()
			defer closeAll(nodes)
			var exit *exitError
			errors.As(err, &exit)
			if len(nodes) != test.nodes || (exit == nil) != (test.status == 0) {
				t.Fatalf("%d nodes, %v", len(nodes), err)
			}
			if exit == nil {
				return
			}
			if exit.status != test.status || !strings.Contains(exit.message, test.said) {
				t.Errorf("status %d, %q", exit.status, exit.message)
			}
			if strings.Contains(exit.message, "secret") {
				t.Errorf("the password is in %q", exit.message)
			}
		})
	}
}

func TestDefaultFile(t *testing.T) {
	for _, test := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/fenlock/fenlock.db"},
		{"", "/h", "/h/.local/state/fenlock/fenlock.db"},
		{"relative", "/h", "/h/.local/state/fenlock/fenlock.db"},
		{"", "", ""},
	} {
		t.Setenv("XDG_STATE_HOME", test.state)
		t.Setenv("HOME", test.home)
		if got, err := defaultFile(); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

// A list is split at the commas between URLs: those between the hosts of one belong to it.
func TestSplitURLs(t *testing.T) {
	for list, want := range map[string][]string{
		"valkey://a,valkey://b:1":             {"valkey://a", "valkey://b:1"},
		"etcd://a:1,b:2,c:3":                  {"etcd://a:1,b:2,c:3"},
		"etcd://a:1,b:2/x, zk://c,d,sqlite:e": {"etcd://a:1,b:2/x", " zk://c,d", "sqlite:e"},
		"postgres://u:p@a,b/d,valkey://c":     {"postgres://u:p@a,b/d", "valkey://c"},
		"valkey://u:a,b@c":                    {"valkey://u:a", "b@c"}, // a comma of a password: refused further on
		"zk://a,":                             {"zk://a", ""},
		"a,b":                                 {"a", "b"},
		"":                                    {""},
	} {
		if got := splitURLs(list); !slices.Equal(got, want) {
			t.Errorf("%q: %q", list, got)
		}
	}
}

// Servers of several engines are a group; the passwords of none of them are shown.
func TestMixedGroup(t *testing.T) {
	t.Setenv(nodesVariable, "valkey://u:secret@a,postgres://u:secret@b/d,etcd://u:secret@c:1,d:2,zk://e,mysql://u:secret@f/d")
	nodes, err := nodeFlags{prefix: "fenlock:"}.open()
	defer closeAll(nodes)
	if err != nil || len(nodes) != 5 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	for _, n := range nodes {
		if strings.Contains(n.String(), "secret") {
			t.Errorf("the password is in %s", n)
		}
	}
	_, err = nodeFlags{urls: []string{"zk://e"}, prefix: "x", prefixSet: true}.open()
	if err == nil || !strings.Contains(err.Error(), "ZooKeeper") {
		t.Errorf("a prefix for ZooKeeper: %v", err)
	}
}
