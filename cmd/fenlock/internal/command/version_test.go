//go:build linux || darwin || freebsd

package command

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

func TestPublished(t *testing.T) {
	revision := []debug.BuildSetting{{Key: "vcs.revision", Value: "792e573aaaaabbbbbccccc"}}
	for _, test := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"devel", nil, ""},
		{"v1.2.3", nil, "v1.2.3"},
		{"v1.2.3-rc.1", revision, "v1.2.3-rc.1"}, // the archive of a release is built from a clone
		{"v1.2.3+dirty", revision, ""},
		{"v0.0.0-20261126100000-792e573aaaaa", nil, "v0.0.0-20261126100000-792e573aaaaa"}, // go install @main
		{"v0.0.0-20261126100000-792e573aaaaa", revision, ""},
	} {
		if got := published(test.version, test.settings); got != test.want {
			t.Errorf("%s: %q", test.version, got)
		}
	}
}
