package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deploy is the folder with the files.
const deploy = ".."

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read returns a file of the folder.
func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, name))
	must(t, err)
	return string(text)
}

// absolute returns the path of a file of the folder, for programs that run elsewhere.
func absolute(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(deploy, name))
	must(t, err)
	return path
}

// with returns a text with one piece changed: what is broken on purpose must be there.
func with(t testing.TB, text, old, changed string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("%q is not there any more: what is to be broken instead?", old)
	}
	return strings.Replace(text, old, changed, 1)
}
