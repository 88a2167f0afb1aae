//go:build linux || darwin || freebsd

package filenode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Each finding has surroundings that have it, and some next to them that have not.
func TestSurroundings(t *testing.T) {
	healthy := surroundings{path: "/srv/locks", mode: 0o600, folder: fs.ModeDir | 0o755, space: 1 << 30, spaceKnown: true}
	if found := healthy.findings(); found != nil {
		t.Errorf("%+v", found)
	}
	for _, c := range []struct {
		check         string
		severity      node.Severity
		with, without func(*surroundings)
		says          string
	}{
		{"network-file", node.Warning, func(s *surroundings) { s.filesystem = "fuse" },
			func(s *surroundings) { s.filesystem = "ufs" }, "another machine"},
		{"file-mode", node.Warning, func(s *surroundings) { s.mode = 0o666 }, func(s *surroundings) { s.mode = 0o644 },
			"chmod 600 /srv/locks"},
		{"folder-mode", node.Warning, func(s *surroundings) { s.folder = 0o777 },
			func(s *surroundings) { s.folder = fs.ModeSticky | 0o777 }, "chmod o-w /srv"},
		{"disk-space", node.Error, func(s *surroundings) { s.space = 1000 },
			func(s *surroundings) { s.space, s.spaceKnown = 0, false }, "full"},
		{"disk-space", node.Warning, func(s *surroundings) { s.space = 10 << 20 },
			func(s *surroundings) { s.space = 64 << 20 }, "10 MiB"},
		{"wall-clock", node.Note, func(s *surroundings) { s.wallClock = true }, func(*surroundings) {}, "wall clock"},
	} {
		with, without := healthy, healthy
		c.with(&with)
		c.without(&without)
		found := with.findings()
		if len(found) != 1 || found[0].Check != c.check || found[0].Severity != c.severity ||
			!strings.Contains(found[0].Reason+found[0].Advice, c.says) {
			t.Errorf("%s: %+v; want a %v with %q", c.check, found, c.severity, c.says)
		}
		if found := without.findings(); found != nil {
			t.Errorf("%s: without it: %+v", c.check, found)
		}
	}
}

// To look at a file changes nothing in it, and finds a room that a hand has changed.
func TestExamine(t *testing.T) {
	n, path := newNode(t)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "me", 0))))
	other := open(t, path)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		e, err := other.Examine(t.Context(), node.Look{Thorough: true})
		if err != nil || !e.Admitted || e.Why != "" || e.Product != "file" || e.Role != "file" || e.Member != path ||
			e.RoundTrip <= 0 || !e.Clock.Store.IsZero() {
			t.Errorf("%+v, %v", e, err)
		}
		for _, f := range e.Findings {
			if f.Check != "disk-space" && f.Check != "wall-clock" { // that is this machine's
				t.Errorf("found %+v", f)
			}
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file was changed (%v)", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if e, err := other.Examine(t.Context(), node.Look{}); err != nil ||
		!strings.Contains(fmt.Sprint(e.Findings), "chmod 600") {
		t.Errorf("%+v, %v", e, err)
	}
	with(t, n, "a", func(r *room) { r.Registers[node.Stripe("a")] = fence.MaxToken + 1 })
	e, err := other.Examine(t.Context(), node.Look{})
	if problem(t, err, path, "damaged", "changed by hand"); e.Admitted {
		t.Errorf("%+v", e)
	}
}

// Two nodes on one file, by whatever links, are one.
func TestExamineTellsFilesApart(t *testing.T) {
	n, path := newNode(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	other, _ := newNode(t)
	var servers []string
	for _, n := range []*Node{n, open(t, link), other} {
		e, err := n.Examine(t.Context(), node.Look{})
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, e.Server)
	}
	if servers[0] != servers[1] || servers[0] == servers[2] {
		t.Error(servers)
	}
}

// A file that cannot be read says why, soon.
func TestExamineFails(t *testing.T) {
	n, path := newNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cancel()
	if e, err := n.Examine(ctx, node.Look{}); !errors.Is(err, context.Canceled) || e.Admitted {
		t.Errorf("%+v, %v", e, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	e, err := n.Examine(t.Context(), node.Look{})
	if problem(t, err, path, "deleted or moved"); !errors.Is(err, node.ErrMisconfigured) || e.Admitted ||
		e.Member != path {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestFilesystem(t *testing.T) {
	if kind, space, known := filesystem(t.TempDir()); !known || space == 0 || network[kind] {
		t.Errorf("%q, %d, %v", kind, space, known)
	}
	if _, _, known := filesystem(filepath.Join(t.TempDir(), "not there")); known {
		t.Error("a file that is not there has a file system")
	}
}
