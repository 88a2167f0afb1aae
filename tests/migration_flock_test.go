package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// flockLines are the lines of docs/migration.md's section about flock: before, between and after.
func flockLines(t *testing.T) (lines []string) {
	t.Helper()
	page, err := os.ReadFile("../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## flock\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		command, ok := strings.CutPrefix(line, "    ")
		if ok && strings.HasSuffix(command, " ./report.sh\n") { // not the script that locks itself
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	if len(lines) != 3 {
		t.Fatalf("the page has other lines: %q", lines)
	}
	return lines
}

// Three shells run a job repeatedly by the lines of the page, and are changed one by one from
// flock(1) to fenlock run, and back. The job is the witness: it finds out if two of it run.
func TestMigrationFromFlock(t *testing.T) {
	t.Parallel()
	const shells = 3
	folder := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(folder, name)
		if err := errors.Join(os.WriteFile(name+".new", []byte(text), mode), os.Rename(name+".new", name)); err != nil {
			t.Fatal(err)
		}
	}
	write("report.sh", `#!/bin/sh
mkdir in || echo "line $line beside $(cat in/*)" >>wrong
echo $line >in/$$
sleep 0.01
rm -r in || echo two >>wrong
`, 0o700)
	write("on", "", 0o600)
	for step, line := range flockLines(t) {
		line = strings.ReplaceAll(line, "/run/lock/report", filepath.Join(folder, "report"))
		write(fmt.Sprint("step", step), fmt.Sprintf(`export line=%d; %s && echo "$line by $shell." >>served`, step, line),
			0o600)
	}
	set := func(shell, step int) {
		write(fmt.Sprint("shell", shell), fmt.Sprintf("shell=%d; . ./step%d", shell, step), 0o600)
	}
	path := "PATH=" + filepath.Dir(testserver.Fenlock(t)) + ":" + os.Getenv("PATH")
	var all sync.WaitGroup
	for i := range shells {
		set(i, 0)
		cmd := exec.Command("sh", "-c", fmt.Sprint("while [ -e on ]; do . ./shell", i, "; sleep 0.02; done"))
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+folder, "FENLOCK_QUIET=true", path)
		all.Go(func() {
			if output, err := cmd.CombinedOutput(); err != nil || len(output) > 0 {
				t.Errorf("a shell: %v\n%s", err, output)
			}
		})
	}
	// The job is run again by a line, or by a line of a shell.
	served := func(by ...string) {
		t.Helper()
		count := func(by string) int {
			text, _ := os.ReadFile(filepath.Join(folder, "served"))
			return strings.Count(string(text), by)
		}
		before := map[string]int{}
		for _, b := range by {
			before[b] = count(b)
		}
		eventually(t, func() error {
			for _, b := range by {
				if count(b) == before[b] {
					return fmt.Errorf("the job does not run with line %s", b)
				}
			}
			return nil
		})
	}
	served("0 by")
	for _, step := range [][2]int{{0, 1}, {1, 2}, {2, 1}, {1, 0}} {
		for i := range shells {
			set(i, step[1])
			served(fmt.Sprintf("%d by %d.", step[1], i)) // it runs no job by its old line any more
			if i < shells-1 {
				served(fmt.Sprint(step[0], " by"), fmt.Sprint(step[1], " by"))
			}
		}
	}
	if err := os.Remove(filepath.Join(folder, "on")); err != nil {
		t.Error(err)
	}
	all.Wait()
	if wrong, err := os.ReadFile(filepath.Join(folder, "wrong")); err == nil {
		t.Errorf("two jobs ran at a time:\n%s", wrong)
	}
}
