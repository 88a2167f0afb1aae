package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// incompatible begins a line of a changelog, below a "- ".
const incompatible = "Incompatible:"

// apiSince compares the exported names of each module with those of an older version.
// What does not compile any more with the new one needs a line in the module's changelog
// that begins with "- Incompatible:", and is refused from v1 on.
func (t *tree) apiSince(old, version, tmp string) error {
	return step("the exported names since "+old, func() error {
		// Whoever runs this is in the folder that pins it.
		apidiff, err := run("", []string{"GOWORK=off", "GOFLAGS="}, "go", "tool", "-n", "apidiff")
		if err != nil {
			return err
		}
		workspace := []string{"GOWORK="} // of each tree its own, whatever the caller has
		was := filepath.Join(tmp, "was")
		if _, err := run(t.root, nil, "git", "worktree", "add", "-q", "--detach", was, old); err != nil {
			return err
		}
		defer run(t.root, nil, "git", "worktree", "remove", "--force", was)
		for _, m := range t.released() {
			if strings.HasPrefix(m.dir, "cmd/") {
				continue // nobody imports a command
			}
			if _, err := os.Stat(filepath.Join(was, m.dir, "go.mod")); err != nil {
				continue // it is new
			}
			export := filepath.Join(tmp, "api")
			if _, err := run(filepath.Join(was, m.dir), workspace, apidiff, "-m", "-w", export, m.path()); err != nil {
				return err
			}
			changes, err := run(filepath.Join(t.root, m.dir), workspace, apidiff, "-m", "-incompatible", export, m.path())
			if err != nil {
				return err
			}
			if changes == "" {
				continue
			}
			log, err := os.ReadFile(filepath.Join(t.root, m.log()))
			if err != nil {
				return err
			}
			said := section(string(log), "Unreleased") + section(string(log), version)
			if semver.Major(version) != "v0" || !strings.Contains("\n"+said, "\n- "+incompatible) {
				return fmt.Errorf("%s is not compatible with %s, and %s has no line \"- %s\" (from v1 on there is none):\n%s", m.path(), old, m.log(), incompatible, changes)
			}
		}
		return nil
	})
}
