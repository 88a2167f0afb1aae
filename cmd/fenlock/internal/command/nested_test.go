//go:build linux || darwin || freebsd

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/node"
)

// A command has each variable once: which of two it would take depends on the program.
func TestTheInnerLocksVariables(t *testing.T) {
	h := newHome(t)
	r := h.start("fenlock", "run", "outer", "--", program, "run", "inner", "--", "env")
	count := map[string]int{}
	for line := range strings.Lines(r.rest()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		count[name]++
		if name == nameVariable && value != "inner" {
			t.Errorf("it is told of %q", value)
		}
	}
	r.want(0)
	for _, name := range []string{nameVariable, tokenVariable, heldVariable, "PATH"} {
		if count[name] != 1 {
			t.Errorf("it has %s %d times", name, count[name])
		}
	}
}

// One lock has one identity, however its nodes are spelled, and no other lock has it.
func TestIdentity(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	must(t, os.Symlink("x", filepath.Join(dir, "y")))
	identity := func(urls ...string) string {
		t.Helper()
		nodes, err := nodeFlags{urls: urls, prefix: "p"}.open(t.Context())
		must(t, err)
		defer closeAll(nodes)
		return identify(nodes, "p", "a")
	}
	identity("file://" + dir + "/x") // makes it
	must(t, os.Link(filepath.Join(dir, "x"), filepath.Join(dir, "w")))
	for _, test := range []struct {
		same, other []string
		is          bool
	}{
		{[]string{"valkey://h"}, []string{"redis://h:6379"}, true},
		{[]string{"valkey://h"}, []string{"valkeys://user:password@h:6379/0"}, true},
		{[]string{"valkey://h?name=n"}, []string{"redis://i:7?name=n"}, true},
		{[]string{"valkey://h", "valkey://i"}, []string{"redis://i", "rediss://h"}, true},
		{[]string{"unix:///s"}, []string{"unix:///s?db=0"}, true},
		{[]string{"file://" + dir + "/x"}, []string{"file://" + link + "/../" + filepath.Base(link) + "/x"}, true},
		{[]string{"file://" + dir + "/x"}, []string{"file://" + link + "/y"}, true},
		{[]string{"file://" + dir + "/x"}, []string{"file://" + dir + "/w"}, true},
		{[]string{"valkey://h"}, []string{"valkey://h/1"}, false},
		{[]string{"valkey://h"}, []string{"valkey://h:6380"}, false},
		{[]string{"valkey://h"}, []string{"valkey://h", "valkey://i"}, false},
		{[]string{"file://" + dir + "/x"}, []string{"file://" + dir + "/z"}, false},
	} {
		if is := identity(test.same...) == identity(test.other...); is != test.is {
			t.Errorf("%q and %q: the same is %v", test.same, test.other, is)
		}
	}
}

// Two nodes of a process are known to be one only if they are, whatever they are called.
func TestLocation(t *testing.T) {
	dir := t.TempDir()
	at := func(url, prefix string) any {
		t.Helper()
		nodes, err := nodeFlags{urls: []string{url}, prefix: prefix}.open(t.Context())
		must(t, err)
		defer closeAll(nodes)
		return nodes[0].Engine().(node.Located).Location()
	}
	seen := map[any]string{}
	for _, url := range []string{
		"valkey://h", "valkey://h/1", "valkey://i", "valkey://h?name=n", "valkey://i?name=n", "unix:///s",
		"file://" + dir + "/x", "file://" + dir + "/y",
		"etcd://h", "etcd://i", "etcd://h/a", "etcd://h?name=n", "etcd://i?name=n",
		"zk://h", "zk://i", "zk://h/a",
		"postgres://u@h/d", "postgres://u@i/d", "postgres://u@h/e", "postgres://u@h/d?schema=s", "postgres://u@h/d?name=n",
		"postgres://u@i/d?name=n",
		"mysql://u@127.0.0.1/d", "mysql://u@127.0.0.2/d", "mysql://u@127.0.0.1/e", "mysql://u@127.0.0.1/d?name=n",
		"mysql://u@127.0.0.2/d?name=n",
	} {
		place := at(url, "p")
		if place != at(url, "p") {
			t.Errorf("%s is two", url)
		}
		if other, again := seen[place]; again {
			t.Errorf("%s is taken for %s", url, other)
		}
		seen[place] = url
	}
	if at("valkey://h", "p") == at("valkey://h", "q") {
		t.Error("another prefix is other locks")
	}
}
