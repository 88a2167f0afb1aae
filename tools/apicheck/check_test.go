package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Each folder lacks one thing, and what is not public lacks all without a complaint.
func TestWhatIsMissing(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"good/good.go": `// Package good is good.
package good

// The kinds.
const (
	A = 1
	B = 2
)

// T is a type.
type T struct{ Name string }

// M does it.
func (T) M() {}

// Error is known.
func (T) Error() string { return "" }

type u struct{}

func (u) M() {}
`,
		"good/example_test.go":       "package good_test\n\nfunc ExampleT() {}\n",
		"good/internal/in/in.go":     "package in\n\nfunc F() {}\n",
		"command/main.go":            "package main\n\nfunc F() {}\n",
		"tests/x/x.go":               "package x\n\nfunc F() {}\n",
		"lone/lone.go":               "// Package lone has no example.\npackage lone\n",
		"mute/mute.go":               "package mute\n",
		"mute/mute_test.go":          "package mute\n\nfunc Example() {}\n",
		"silent/silent.go":           "// Package silent says little.\npackage silent\n\nvar V, w = 1, 2\n\ntype T[X any] struct{}\n\nfunc (T[X]) M() {}\n\nfunc F() {}\n\ntype (\n\tU int // of one line\n)\n",
		"silent/example_test.go":     "package silent_test\n\nfunc ExampleF() {}\n",
		"silent/silent_windows.go":   "package silent\n\nfunc Elsewhere() {}\n",
		"silent/testdata/x/other.go": "package x\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, packages, err := check(root)
	want := []string{
		"lone: no example: a func Example... in a file of tests",
		"mute: no overview: a comment that begins with: Package mute",
		"silent/silent.go:4: V has no comment",
		"silent/silent.go:6: T has no comment",
		"silent/silent.go:8: M has no comment",
		"silent/silent.go:10: F has no comment",
		"silent/silent.go:13: U has no comment",
	}
	if !slices.Equal(got, want) || packages != 4 || err != nil {
		t.Errorf("got %d packages, %v, %q", packages, err, got)
	}
	if _, _, err := check(t.TempDir()); err == nil {
		t.Error("a folder without packages was fine")
	}
}
