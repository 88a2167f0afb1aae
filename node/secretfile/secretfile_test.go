//go:build unix

package secretfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(write(t, "swordfish", 0o640), link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, says string }{ // "" if it is read
		{write(t, "swordfish", 0o600), ""},
		{write(t, "swordfish", 0o400), ""},
		{write(t, strings.Repeat("swordfish", MaxSize/9), 0o600), ""},
		{write(t, "", 0o600), ""},
		{write(t, strings.Repeat("swordfish", MaxSize/9+1), 0o600), "longer than"},
		{write(t, "swordfish", 0o644), "mode 0644): chmod 600 /"},
		{write(t, "swordfish", 0o640), "chmod 600"},
		{write(t, "swordfish", 0o604), "chmod 600"},
		{write(t, "swordfish", 0o620), "chmod 600"},
		{link, "mode 0640"},
		{dir, "is a directory"},
		{pipe, "is not a regular file"},
		{"/dev/null", "is not a regular file"},
		{filepath.Join(dir, "none"), "none does not exist"},
		{write(t, "swordfish", 0o600) + "/x", "cannot be read: not a directory"},
		{"", "name is empty"},
		{"a\x00b", "cannot be read"},
	} {
		text, err := Read(c.path)
		switch {
		case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q: %v; want %q", c.path, err, c.says)
		case err != nil && (text != nil || strings.Contains(err.Error(), "swordfish")):
			t.Errorf("%q: %q, %v", c.path, text, err)
		case err != nil && c.path != "" && strings.Count(strings.Split(err.Error(), ": chmod")[0], c.path) != 1:
			t.Errorf("%q: the path is not there once: %v", c.path, err)
		}
	}
}

func TestWhoMayReadIt(t *testing.T) {
	const root, me, other = 0, 1000, 1001
	for _, c := range []struct {
		mode        fs.FileMode
		owner, user int
		ok          bool
	}{
		{0o600, me, me, true}, {0o400, me, me, true}, {0o000, me, me, true}, {0o700, me, me, true},
		{0o640, me, me, false}, {0o604, me, me, false}, {0o601, me, me, false}, {0o610, me, me, false},
		{0o622, me, me, false},
		{0o600, root, root, true}, {0o640, root, root, false}, {0o444, root, root, false},
		// A user other than root can read root's file by its group, or a list of systemd's only.
		{0o640, root, me, true}, {0o440, root, me, true}, {0o660, root, me, false}, {0o644, root, me, false},
		{0o441, root, me, false},
		{0o600, other, me, false}, {0o400, other, root, false}, {0o600, me, root, false},
	} {
		if err := checkOwner("path", c.mode, c.owner, c.user); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestReadPassword(t *testing.T) {
	for text, want := range map[string]string{
		"swordfish": "swordfish", "swordfish\n": "swordfish", "swordfish\r\n": "swordfish",
		" with spaces \n": " with spaces ",
		"":                "is empty", "\n": "is empty", "\r\n": "is empty",
		"swordfish\nmore\n": "more than one line", "swordfish\n\n": "more than one line",
		"sword\x00fish": "more than one line", "sword\rfish": "more than one line",
	} {
		got, err := ReadPassword(write(t, text, 0o600))
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "fish") {
			t.Errorf("%q: the password is in %q", text, err)
		}
	}
	if _, err := ReadPassword(write(t, "swordfish", 0o644)); err == nil {
		t.Error("others may read it")
	}
}
