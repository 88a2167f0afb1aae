package fenlockterraform_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fenlock/fenlock"
	fenlockterraform "github.com/fenlock/fenlock/integration/terraform"
)

func save(t *testing.T, d *fenlockterraform.Dir, r fenlockterraform.Record) error {
	t.Helper()
	return d.Save(t.Context(), "orders/production", r)
}

func load(t *testing.T, d *fenlockterraform.Dir) fenlockterraform.Record {
	t.Helper()
	r, err := d.Load(t.Context(), "orders/production")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Of all who go on from one version, one is stored, and nobody reads a half of anything.
func TestOneFollows(t *testing.T) {
	root := t.TempDir()
	const writers, rounds = 8, 15
	var all sync.WaitGroup
	var mu sync.Mutex
	stored := 0
	for i := range writers {
		d := open(t, root)
		all.Go(func() {
			for range rounds {
				r := load(t, d)
				if n := len(r.State); n > 0 && string(r.State) != strings.Repeat(string(r.State[:1]), n) {
					t.Errorf("it has read %q", r.State)
				}
				r.Version++
				r.State = []byte(strings.Repeat(string(rune('a'+i)), 1000))
				switch err := save(t, d, r); {
				case err == nil:
					mu.Lock()
					stored++
					mu.Unlock()
				case !errors.Is(err, fenlockterraform.ErrConflict):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if r := load(t, open(t, root)); int(r.Version) != stored || stored < rounds {
		t.Errorf("version %d, and %d were stored", r.Version, stored)
	}
	files, err := os.ReadDir(filepath.Join(root, "orders+production"))
	if err != nil || len(files) > fenlockterraform.Versions+writers {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// A server that was paused for so long that its version has come and gone stores nothing.
func TestLongAgo(t *testing.T) {
	d := open(t, t.TempDir())
	for v := range uint64(fenlockterraform.Versions + 3) {
		if err := save(t, d, fenlockterraform.Record{Version: v + 1, State: []byte("newer")}); err != nil {
			t.Fatal(err)
		}
	}
	for v := range uint64(fenlockterraform.Versions + 3) {
		if err := save(t, d, fenlockterraform.Record{Version: v + 1, State: []byte("older")}); !errors.Is(err, fenlockterraform.ErrConflict) {
			t.Errorf("version %d: %v", v+1, err)
		}
	}
	if r := load(t, d); string(r.State) != "newer" || r.Version != fenlockterraform.Versions+3 {
		t.Errorf("%+v", r)
	}
}

// What another process finds after a crash in the middle of a write, and what of a file that is damaged.
func TestAfterACrash(t *testing.T) {
	root := t.TempDir()
	first := fenlockterraform.Record{Version: 1, State: []byte("a\nb\n"), Lock: []byte("{\n\"ID\": \"x\"}"), LockID: "x", Released: []string{"w"}}
	if err := save(t, open(t, root), first); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "orders+production")
	if err := os.WriteFile(filepath.Join(dir, ".new-00000000000000000002-1"), []byte("{}\nhalf a st"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := load(t, open(t, root))
	if string(r.State) != "a\nb\n" || r.LockID != "x" || !slices.Equal(r.Released, []string{"w"}) || string(r.Lock) != `{"ID":"x"}` {
		t.Errorf("%+v", r)
	}
	info, err := os.Stat(filepath.Join(dir, "00000000000000000001"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the secrets: %v, %v", info, err)
	}
	for _, damaged := range []string{"", "{}", "{", "no header\nstate"} {
		if err := os.WriteFile(filepath.Join(dir, "00000000000000000002"), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := open(t, root).Load(t.Context(), "orders/production"); err == nil || !strings.Contains(err.Error(), "00000000000000000002") {
			t.Errorf("%q: %+v, %v", damaged, r, err)
		}
	}
}

// What servers that died in the middle of a write have left is secret, too. The next write removes it, but not
// what a later one is about to be made of; and whose file was removed has come too late.
func TestLeftOver(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	dir := filepath.Join(root, "orders+production")
	if err := save(t, d, fenlockterraform.Record{Version: 1, State: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	later := ".new-00000000000000000003-1"
	for _, left := range []string{".new-00000000000000000001-1", ".new-00000000000000000002-1", later} {
		if err := os.WriteFile(filepath.Join(dir, left), []byte("{}\nhalf a st"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := save(t, d, fenlockterraform.Record{Version: 2, State: []byte("b")}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != later {
		t.Errorf("%v are left, %v", files, err)
	}
}

// Names are checked where they become files, whoever calls.
func TestDirNames(t *testing.T) {
	d := open(t, t.TempDir())
	for _, name := range []string{"", "..", "../a", "a+b", "/a"} {
		if _, err := d.Load(t.Context(), name); !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
		if err := d.Save(t.Context(), name, fenlockterraform.Record{Version: 1}); !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
