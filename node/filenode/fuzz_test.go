//go:build linux || darwin || freebsd

package filenode

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// FuzzURL reads any URL. What is accepted names the file that it says. What is refused shows no
// password of another engine's URL. It opens nothing.
func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"file:///var/lib/x", "file:x", "file:/abs/x", "file:///a%20b%3Fc%23d", "file:a%20b", "file:%00", "file:///%2e%2e/x",
		"file:",
		"file://", "file://host/x", "file:///x?mode=memory", "file:x?", "file:///x#part", "file:x#", "FILE:x",
		"file:%25%32%33",
		"postgres://ann:swordfish@host/db", "postgres://ann:swordfish@host:port/db", "file://ann:swordfish@/x",
		"file:ann:swordfish@x", "/plain/path", "file:///%zz", "\xff", "file:\xff",
		"sqlite:///x", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		const secret = "swordfish"
		path, err := parse(raw)
		if err != nil {
			if path != "" || !errors.Is(err, fenlock.ErrInvalid) {
				t.Errorf("%q: %q, %v", raw, path, err)
			}
			if strings.Contains(raw, "@") && strings.Contains(raw, secret) && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the password is in %q", raw, err)
			}
			return
		}
		// By hand: the scheme, then the path in one of three forms.
		rest := strings.TrimPrefix(raw[len("file:"):], "//")
		if want, err := url.PathUnescape(rest); err != nil || path != want ||
			!strings.EqualFold(raw[:len("file:")], "file:") || strings.ContainsAny(rest, "?#") {
			t.Errorf("%q was read as the path %q; want %q, %v", raw, path, want, err)
		}
	})
}

// FuzzFile opens files of any name, below a folder of the test. The file of that very name is made,
// and nothing beside it but what belongs to it.
func FuzzFile(f *testing.F) {
	for _, s := range []string{"a", "a b", "a?mode=memory", "a#b", "a%41", "a%", "é", "\xff", "a'b\"c;--", ":memory:",
		"file:a", "..", ".", "a\nb", "a&b=c", "-wal", "a\\b", "~", strings.Repeat("x", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || name == "." || name == ".." || len(name) > 200 || strings.ContainsAny(name, "/\x00") {
			return // another folder, or no file
		}
		dir := t.TempDir()
		n, err := Open("file://" + (&url.URL{Path: filepath.Join(dir, name)}).EscapedPath())
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		defer n.Close()
		if n.String() != filepath.Join(dir, name) {
			t.Errorf("%q: the node is called %q", name, n)
		}
		a, err := n.Do(context.Background(), as(node.Acquire, request("lock", "me", 7)))
		if err != nil || a.Status != node.Granted || a.Register != 7 {
			t.Errorf("%q: %+v, %v", name, a, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 1 || left[0].Name() != name {
			t.Errorf("%q: made %v, %v", name, left, err)
		}
	})
}
