//go:build linux || darwin || freebsd

package main

import (
	"runtime/debug"
	"testing"
)

func TestCommit(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "792e573aaaaabbbbbccccc"}
	for _, test := range []struct {
		settings []debug.BuildSetting
		want     string
	}{
		{nil, ""}, // go install
		{[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}, ""},
		{[]debug.BuildSetting{revision, {Key: "vcs.modified", Value: "false"}}, "commit 792e573aaaaa, "},
		{[]debug.BuildSetting{revision, {Key: "vcs.modified", Value: "true"}}, "commit 792e573aaaaa with changes, "},
	} {
		if got := commit(test.settings); got != test.want {
			t.Errorf("%v: %q instead of %q", test.settings, got, test.want)
		}
	}
}
