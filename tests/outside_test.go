package tests

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// An engine can be written in a module outside of this repository: testdata/outside
// is one, made by the guide of package nodetest. It is built and tested as its author
// would do it, without the workspace, and with nothing but what is public.
func TestEngineOfAnotherModule(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sources, err := filepath.Glob(filepath.Join("testdata", "outside", "*.go"))
	if err != nil || len(sources) < 4 {
		t.Fatalf("%d files, %v", len(sources), err)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		onlyPublic(t, source, text)
		write(t, filepath.Join(dir, filepath.Base(source)), string(text))
	}
	write(t, filepath.Join(dir, "go.mod"), fmt.Sprintf("module example.org/filenode\n\ngo 1.26\n\n"+
		"require github.com/fenlock/fenlock v0.0.0\n\nreplace github.com/fenlock/fenlock => %s\n", strconv.Quote(root)))
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-count=1", "-v", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, failures(string(out)))
		}
		// The rules for queues are among those that it has passed.
		if args[0] == "test" && (!strings.Contains(string(out), "--- PASS: TestConformance/ReleaseNotifiesTheFirst ") || strings.Contains(string(out), "--- SKIP")) {
			t.Errorf("not all rules were run:\n%s", out)
		}
	}
}

func onlyPublic(t *testing.T, source string, text []byte) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), source, text, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range f.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		first, _, _ := strings.Cut(path, "/")
		ours := strings.HasPrefix(path+"/", "github.com/fenlock/fenlock/")
		if strings.Contains(first, ".") && !ours || strings.Contains(path, "internal") {
			t.Errorf("%s imports %s, which another module cannot, or which is none of fenlock's", source, path)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// failures leaves out what has passed.
func failures(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if !strings.Contains(line, "=== ") && !strings.Contains(line, "--- PASS") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
