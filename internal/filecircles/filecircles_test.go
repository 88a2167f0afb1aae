package filecircles

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// write makes a directory with these files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCircles(t *testing.T) {
	dir := write(t, map[string]string{
		// A circle of three: by a field, behind the standard library; by a method;
		// by a function.
		"a.go": `package p

import (
	"example.com/elsewhere"
	"sync/atomic"
)

type T struct{ next atomic.Pointer[inner] }

func (t *T) Field() int {
	elsewhere.Call(func() { used() })
	return t.next.Load().field
}`,
		"b.go": "package p\n\ntype inner struct{ field int }\n\nfunc (i *inner) call() { f() }\n",
		"c.go": "package p\n\nfunc f() { var t T; t.Field() }\n",
		// What a circle uses, or is used by, is no part of it.
		"user.go": "package p\n\nvar _ = T{}\n",
		"used.go": "package p\n\nfunc used() {}\n",
		// A pair, by an embedded field and by a constant that a package, which
		// is not there, is given.
		"pair1.go": "package p\n\ntype outer struct{ embedded }\n\nconst n = 1\n\nfunc (o outer) get() int { return o.promoted }\n",
		"pair2.go": "package p\n\nimport \"example.com/elsewhere\"\n\ntype embedded struct{ promoted int }\n\nvar _ = elsewhere.T{X: []int{n}}\n",
		// Local names are of no other file.
		"local.go": "package p\n\nfunc local() (f int) { n := f; return n }\n",
		// What is not built, and tests.
		"a_windows.go": "package p\n\nvar _ = local()\n",
		"tagged.go":    "//go:build never\n\npackage p\n\nvar _ = local()\n",
		"a_test.go":    "package p\n\nvar _ = local()\n",
	})
	circles, uses, err := Circles(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"a.go", "b.go", "c.go"}, {"pair1.go", "pair2.go"}}
	if !reflect.DeepEqual(circles, want) {
		t.Errorf("circles %q; want %q", circles, want)
	}
	wantUses := map[[2]string][]string{
		{"a.go", "b.go"}:         {"field", "inner"},
		{"a.go", "used.go"}:      {"used"},
		{"b.go", "c.go"}:         {"f"},
		{"c.go", "a.go"}:         {"Field", "T"},
		{"user.go", "a.go"}:      {"T"},
		{"pair1.go", "pair2.go"}: {"embedded", "promoted"},
		{"pair2.go", "pair1.go"}: {"n"},
	}
	if !reflect.DeepEqual(uses, wantUses) {
		t.Errorf("uses %q;\nwant %q", uses, wantUses)
	}
}

func TestNoCircle(t *testing.T) {
	dir := write(t, map[string]string{
		"a.go": "package p\n\nfunc a() { b(); c() }\n",
		"b.go": "package p\n\nfunc b() { c() }\n",
		"c.go": "package p\n\nfunc c() {}\n",
	})
	if circles, _, err := Circles(dir); err != nil || circles != nil {
		t.Errorf("%q, %v", circles, err)
	}
}

func TestWhatIsNoPackage(t *testing.T) {
	for name, dir := range map[string]string{
		"empty":      t.TempDir(),
		"not there":  filepath.Join(t.TempDir(), "none"),
		"not parsed": write(t, map[string]string{"a.go": "package p\n\nfunc"}),
	} {
		if _, _, err := Circles(dir); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
