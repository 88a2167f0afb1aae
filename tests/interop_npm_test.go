//go:build npm

package tests

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// npmModules names the folder in which "npm install" was run on npm/package.json;
// the test runs it in a temporary one if it is empty.
const npmModules = "FENLOCK_NPM_FOLDER"

// The npm package redlock, both of its lines, and fenlock lock each other out on
// the same key, and neither removes the other's lease.
func TestNPMRedlock(t *testing.T) {
	folder := os.Getenv(npmModules)
	if folder == "" {
		folder = t.TempDir()
		for _, name := range []string{"package.json", "lock.js"} {
			text, err := os.ReadFile(filepath.Join("npm", name))
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--loglevel=error")
		install.Dir = folder
		if output, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm install: %v\n%s", err, output)
		}
	}
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		for _, version := range []string{"4", "5"} {
			t.Run("redlock "+version, func(t *testing.T) {
				name := "orders/" + version
				servers, ours := plainGroup(t, kind, 3)
				theirs := startNode(t, folder, version, name, servers)
				ctx := bounded(t)

				theirs.do("lock", "locked")
				heldByAnother(t, ours, name)
				theirs.do("unlock", "released")

				lock := acquire(t, ours, name)
				theirs.do("lock", "refused")
				theirs.do("unlock", map[string]string{"4": "failed", "5": "failed"}[version]) // its old one
				if err := lock.Extend(ctx); err != nil {
					t.Errorf("fenlock's lock after redlock was refused: %v", err)
				}
				release(t, lock)
				theirs.do("lock", "locked")
				theirs.do("unlock", "released")
			})
		}
	})
}

// nodeProcess is npm/lock.js with one lock.
type nodeProcess struct {
	t      *testing.T
	input  io.Writer
	output *bufio.Scanner
}

func startNode(t *testing.T, folder, version, name string, servers []*testserver.Server) *nodeProcess {
	t.Helper()
	arguments := []string{"lock.js", version, name}
	for _, s := range servers {
		arguments = append(arguments, s.Addr())
	}
	cmd := exec.Command("node", arguments...)
	cmd.Dir = folder
	input, output := startProcess(t, cmd)
	return &nodeProcess{t: t, input: input, output: output}
}

func (p *nodeProcess) do(command, want string) {
	p.t.Helper()
	fmt.Fprintln(p.input, command)
	if !p.output.Scan() {
		p.t.Fatalf("%s: node ended: %v", command, p.output.Err())
	}
	if got := p.output.Text(); got != want {
		p.t.Errorf("%s: %s, want %s", command, got, want)
	}
}
