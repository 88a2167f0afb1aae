package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// CommandVariable has the path of the program fenlock, which scripts/test.sh builds once for all
// packages.
const CommandVariable = "TESTSERVER_FENLOCK"

// BuildFenlock returns the path of the program fenlock, beside which fenlock-all is: that of
// CommandVariable, or one that it builds in the folder.
func BuildFenlock(folder string) (path string, err error) {
	if path = os.Getenv(CommandVariable); path != "" {
		return path, nil
	}
	return filepath.Join(folder, "fenlock"), BuildCommands(folder)
}

// BuildCommands builds fenlock and fenlock-all in the folder, with flags of go build.
func BuildCommands(folder string, flags ...string) error {
	const command = "github.com/fenlock/fenlock/cmd/fenlock"
	args := append(append([]string{"build"}, flags...), "-o", folder+"/", command, command+"/fenlock-all")
	if said, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, said)
	}
	return nil
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
