package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An engine can be written in a module outside of this repository: testdata/outside
// is one, made by the guide of package nodetest. It is built and tested as its author
// would do it, without the workspace, and with nothing but what is public.
func TestEngineOfAnotherModule(t *testing.T) {
	root, err := filepath.Abs("..")
	dir := t.TempDir()
	mod := fmt.Sprintf("module example.org/filenode\n\ngo 1.26\n\n"+
		"require github.com/fenlock/fenlock v0.0.0\n\nreplace github.com/fenlock/fenlock => %q\n", root)
	err = errors.Join(err, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "outside"))),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-count=1", "-v", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		// The rules for queues are among those that it has passed.
		if args[0] == "test" && (!strings.Contains(string(out), "--- PASS: TestConformance/ReleaseNotifiesTheFirst ") ||
			strings.Contains(string(out), "--- SKIP")) {
			t.Errorf("not all rules were run:\n%s", out)
		}
	}
}
