//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
)

func TestOpenNodes(t *testing.T) {
	file := "file://" + t.TempDir() + "/a"
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
		{name: "sentinels without a name", variable: "redis-sentinel://u:secret@a:1,b", status: 64,
			said: "the primary's name is missing"},
		{name: "a cluster", variable: "cluster://u:secret@a:1", status: 64, said: "valkeys-cluster:// (TLS)"},
		{name: "a cluster's tag", variable: "redis-cluster://:secret@a:1,b/a}b", status: 64,
			said: "the hash tag of all keys"},
		{name: "a comma in a password", variable: "valkey://u:x,secret@a:1", status: 64, said: "%2C"},
		{name: "port", variable: "valkey://u:secret@a:port", status: 64, said: "cannot be parsed"},
		{name: "mixed", variable: file + ",valkey://u:secret@a:1", status: 64,
			said: "node 1 is a file: a file is of this machine only, and the only node"},
		{name: "two files", flags: nodeFlags{urls: []string{file, file + "2"}}, status: 64, said: "--node: node 1 is a file"},
		{name: "an earlier version's URL", flags: nodeFlags{urls: []string{"sqlite:///x"}}, status: 64,
			said: "write file: instead of sqlite:"},
		{name: "a folder", flags: nodeFlags{urls: []string{"file://" + t.TempDir()}}, status: 69, said: "is a directory"},
		{name: "something else", flags: nodeFlags{urls: []string{"file:///dev/null"}}, status: 69,
			said: "not a regular file"},
		{name: "no such folder", flags: nodeFlags{urls: []string{"file://" + t.TempDir() + "/typo/a"}}, status: 69,
			said: "/typo does not exist"},
		{name: "prefix", flags: nodeFlags{urls: []string{file}, prefixSet: true}, status: 64, said: "--prefix"},
		{name: "prefix with the default file", flags: nodeFlags{prefixSet: true}, status: 64, said: "--prefix"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(nodesVariable, test.variable) // set first, so that it is put back
			if test.variable == "" && !test.empty {
				os.Unsetenv(nodesVariable)
			}
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			nodes, err := test.flags.open(t.Context())
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

// A file has as long to answer as the library allows, servers as long as it proposes.
func TestNodeTimeout(t *testing.T) {
	for url, want := range map[string]time.Duration{"file://" + t.TempDir() + "/a": 10 * time.Second, "valkey://h": 0} {
		nodes, err := nodeFlags{urls: []string{url}}.open(t.Context())
		must(t, err)
		defer closeAll(nodes)
		if got := nodeTimeout(nodes, 40*time.Second); got != want {
			t.Errorf("%s: %v, want %v", url, got, want)
		}
	}
}

func TestDefaultFile(t *testing.T) {
	for _, test := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/fenlock/locks"},
		{"", "/h", "/h/.local/state/fenlock/locks"},
		{"relative", "/h", "/h/.local/state/fenlock/locks"},
		{"", "", ""},
	} {
		t.Setenv("XDG_STATE_HOME", test.state)
		t.Setenv("HOME", test.home)
		if got, err := defaultFile(); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

// A user without a home, or with that of another one, hears what to set.
func TestAnUnusableHome(t *testing.T) {
	h := newHome(t)
	const way = "set XDG_STATE_HOME to a folder that this user may write to, or FENLOCK_NODES"
	for _, test := range []struct {
		env  string
		said string
	}{
		{"-u HOME", "no nodes, and neither XDG_STATE_HOME nor HOME is an absolute path: " + way},
		{"HOME=/dev/null", "the lock cannot be in /dev/null/.local/state/fenlock/locks: " + way +
			" (mkdir /dev/null: not a directory)"},
		{"XDG_STATE_HOME=/dev/null", "the lock cannot be in /dev/null/fenlock/locks: " + way},
	} {
		args := append([]string{"env", "-u", "XDG_STATE_HOME"}, strings.Fields(test.env)...)
		r := h.start(append(args, program, "run", "x", "--", "true")...)
		r.want(64, "fenlock: "+test.said)
		if strings.Count(r.stderr.String(), "\n") != 1 {
			t.Errorf("%s: more than that: %s", test.env, &r.stderr)
		}
	}
	for err, status := range map[error]int{syscall.EACCES: 64, syscall.EPERM: 64, syscall.EROFS: 64, syscall.ENOSPC: 69,
		syscall.EIO: 69} {
		var exit *exitError
		err := unusable("/x/y", &os.PathError{Op: "mkdir", Path: "/x", Err: err})
		if !errors.As(err, &exit) || exit.status != status || !strings.Contains(exit.message, "/x/y: ") {
			t.Errorf("%v has the status %d", err, exit.status)
		}
	}
}

// The text of --label stands before host and process id, and alone where there is no room.
func TestLabel(t *testing.T) {
	own := fenlock.DefaultLabel()
	room := fenlock.MaxLabelLength - len(own) - len(" ()")
	for text, want := range map[string]string{
		"": "", "nightly": "nightly (" + own + ")", "a\nb": "a\nb",
		strings.Repeat("x", room):     strings.Repeat("x", room) + " (" + own + ")",
		strings.Repeat("x", room+1):   strings.Repeat("x", room+1),
		strings.Repeat("x", room+999): strings.Repeat("x", room+999),
	} {
		if got := (&runOptions{label: text}).fullLabel(); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// A list is split at the commas between URLs: those between the hosts of one belong to it.
func TestSplitURLs(t *testing.T) {
	for list, want := range map[string][]string{
		"valkey://a,valkey://b:1":           {"valkey://a", "valkey://b:1"},
		"etcd://a:1,b:2,c:3":                {"etcd://a:1,b:2,c:3"},
		"etcd://a:1,b:2/x, zk://c,d,file:e": {"etcd://a:1,b:2/x", " zk://c,d", "file:e"},
		"postgres://u:p@a,b/d,valkey://c":   {"postgres://u:p@a,b/d", "valkey://c"},
		"valkey://u:a,b@c":                  {"valkey://u:a", "b@c"}, // a comma of a password: refused further on
		"zk://a,":                           {"zk://a", ""},
		"a,b":                               {"a", "b"},
		"":                                  {""},
	} {
		if got := splitURLs(list); !slices.Equal(got, want) {
			t.Errorf("%q: %q", list, got)
		}
	}
}

// Servers of several engines are a group; the passwords of none of them are shown.
func TestMixedGroup(t *testing.T) {
	t.Setenv(nodesVariable, "valkey://u:secret@a,postgres://u:secret@b/d,etcd://u:secret@c:1,d:2,zk://e,mysql://u:secret@f/d")
	nodes, err := nodeFlags{prefix: "fenlock:"}.open(t.Context())
	defer closeAll(nodes)
	if err != nil || len(nodes) != 5 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	for _, n := range nodes {
		if strings.Contains(n.String(), "secret") {
			t.Errorf("the password is in %s", n)
		}
	}
	_, err = nodeFlags{urls: []string{"zk://e"}, prefix: "x", prefixSet: true}.open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ZooKeeper") {
		t.Errorf("a prefix for ZooKeeper: %v", err)
	}
}
