//go:build linux || darwin || freebsd

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("x.db", filepath.Join(dir, "y.db")); err != nil {
		t.Fatal(err)
	}
	identity := func(urls ...string) string {
		t.Helper()
		nodes, err := nodeFlags{urls: urls, prefix: "p"}.open()
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(nodes)
		return identify(nodes, "p", "a")
	}
	for _, test := range []struct {
		same, other []string
		is          bool
	}{
		{[]string{"valkey://h"}, []string{"redis://h:6379"}, true},
		{[]string{"valkey://h"}, []string{"valkeys://user:password@h:6379/0"}, true},
		{[]string{"valkey://h?name=n"}, []string{"redis://i:7?name=n"}, true},
		{[]string{"valkey://h", "valkey://i"}, []string{"redis://i", "rediss://h"}, true},
		{[]string{"unix:///s"}, []string{"unix:///s?db=0"}, true},
		{[]string{"sqlite://" + dir + "/x.db"}, []string{"sqlite://" + link + "/../" + filepath.Base(link) + "/x.db"}, true},
		{[]string{"sqlite://" + dir + "/x.db"}, []string{"sqlite://" + link + "/y.db"}, true},
		{[]string{"valkey://h"}, []string{"valkey://h/1"}, false},
		{[]string{"valkey://h"}, []string{"valkey://h:6380"}, false},
		{[]string{"valkey://h"}, []string{"valkey://h", "valkey://i"}, false},
		{[]string{"sqlite://" + dir + "/x.db"}, []string{"sqlite://" + dir + "/z.db"}, false},
	} {
		if is := identity(test.same...) == identity(test.other...); is != test.is {
			t.Errorf("%q and %q: the same is %v", test.same, test.other, is)
		}
	}
}
