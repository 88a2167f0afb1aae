package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// CommandVariable has the path of the program fenlock, which scripts/test.sh builds once for all packages.
const CommandVariable = "TESTSERVER_FENLOCK"

// BuildFenlock returns the path of the program fenlock: that of CommandVariable, or one that it builds in the folder.
func BuildFenlock(folder string) (path string, err error) {
	if path = os.Getenv(CommandVariable); path != "" {
		return path, nil
	}
	path = filepath.Join(folder, "fenlock")
	if said, err := exec.Command("go", "build", "-o", path, "github.com/fenlock/fenlock/cmd/fenlock").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, said)
	}
	return path, nil
}

// Fenlock is BuildFenlock for a test.
func Fenlock(t testing.TB) (path string) {
	t.Helper()
	path, err := BuildFenlock(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}
