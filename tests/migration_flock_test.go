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
	write("report.sh", "#!/bin/sh\nmkdir in || echo two >>wrong\nsleep 0.01\nrmdir in || echo two >>wrong\n", 0o700)
	write("on", "", 0o600)
	for step, line := range flockLines(t) {
		line = strings.ReplaceAll(line, "/run/lock/report", filepath.Join(folder, "report"))
		write(fmt.Sprint("step", step), line+` && echo `+fmt.Sprint(step)+` >>served`, 0o600)
	}
	set := func(shell, step int) {
		write(fmt.Sprint("shell", shell), fmt.Sprint(". ./step", step), 0o600)
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
	served := func(steps ...int) {
		t.Helper()
		count := func(step int) int {
			text, _ := os.ReadFile(filepath.Join(folder, "served"))
			return strings.Count(string(text), fmt.Sprint(step))
		}
		before := [3]int{count(0), count(1), count(2)}
		eventually(t, func() error {
			for _, s := range steps {
				if count(s) < before[s]+1 {
					return fmt.Errorf("the job does not run with line %d", s)
				}
			}
			return nil
		})
	}
	served(0)
	for _, step := range [][2]int{{0, 1}, {1, 2}, {2, 1}, {1, 0}} {
		for i := range shells {
			set(i, step[1])
			if i < shells-1 {
				served(step[0], step[1])
			}
		}
		served(step[1])
	}
	if err := os.Remove(filepath.Join(folder, "on")); err != nil {
		t.Error(err)
	}
	all.Wait()
	if wrong, err := os.ReadFile(filepath.Join(folder, "wrong")); err == nil {
		t.Errorf("two jobs ran at a time:\n%s", wrong)
	}
}
