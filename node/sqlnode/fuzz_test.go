package sqlnode

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

// FuzzURL reads whatever URL somebody could write: what is accepted names the
// file that it says, with nothing left out and nothing added to the settings of
// the connection, and what is refused shows no password of another engine's URL.
// It opens nothing.
func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"sqlite:///var/lib/x.db", "sqlite:x.db", "sqlite:/abs/x.db", "sqlite:///a%20b%3Fc%23d.db", "sqlite:a%20b.db", "sqlite:%00", "sqlite:///%2e%2e/x", "sqlite:",
		"sqlite://", "sqlite::memory:", "sqlite://host/x.db", "sqlite:///x.db?mode=memory", "sqlite:x.db?", "sqlite:///x.db#part", "sqlite:x#", "SQLITE:x", "sqlite:%25%32%33",
		"postgres://ann:swordfish@host/db", "postgres://ann:swordfish@host:port/db", "sqlite://ann:swordfish@/x", "sqlite:ann:swordfish@x", "/plain/path", "sqlite:///%zz", "\xff", "sqlite:\xff",
		"sqlite:///x?_journal_mode=OFF", "file:///x", "",
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
		rest := raw[len("sqlite:"):]
		rest = strings.TrimPrefix(rest, "//")
		if want, err := url.PathUnescape(rest); err != nil || path != want || !strings.EqualFold(raw[:len("sqlite:")], "sqlite:") || strings.ContainsAny(rest, "?#") {
			t.Errorf("%q was read as the path %q; want %q, %v", raw, path, want, err)
		}
		u, err := url.Parse(dsn(path))
		if err != nil || u.Scheme != "file" || u.Host != "" || u.User != nil || u.Fragment != "" || u.Opaque != "" || strings.TrimPrefix(u.Path, "/") != strings.TrimPrefix(path, "/") {
			t.Errorf("%q: the driver would read %q as %+v, %v", raw, dsn(path), u, err)
		}
		if settings := u.Query(); len(settings) != 8 || settings.Get("mode") != "rw" || settings.Get("_journal_mode") != "WAL" || settings.Get("_synchronous") != "NORMAL" {
			t.Errorf("%q: the settings are %v", raw, settings)
		}
	})
}

// FuzzFile opens files of any name, below a folder of the test: the file of that
// very name is made, and nothing beside it but what belongs to it.
func FuzzFile(f *testing.F) {
	for _, s := range []string{"a.db", "a b", "a?mode=memory", "a#b", "a%41", "a%", "é", "\xff", "a'b\"c;--", ":memory:", "file:a", "..", ".", "a\nb", "a&b=c", "-wal", "a\\b", "~", strings.Repeat("x", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || name == "." || name == ".." || len(name) > 200 || strings.ContainsAny(name, "/\x00") {
			return // another folder, or no file
		}
		dir := t.TempDir()
		n, err := Open("sqlite://" + (&url.URL{Path: filepath.Join(dir, name)}).EscapedPath())
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
		if err != nil || len(left) == 0 {
			t.Errorf("%q: made %v, %v", name, left, err)
		}
		for _, file := range left {
			if rest, ok := strings.CutPrefix(file.Name(), name); !ok || rest != "" && rest != "-wal" && rest != "-shm" && rest != "-journal" {
				t.Errorf("%q: the file %q was made", name, file.Name())
			}
		}
	})
}
