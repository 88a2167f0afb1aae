package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// The version before the first one, for upgrades to be tried all the same.
const before = "v0.0.1"

// check tries a release of the files as they are, in a copy of them.
func check(t *tree, version string) error {
	named, err := t.named()
	if err != nil {
		return err
	}
	if version == "" {
		version = next(t, named)
	}
	return temporary(func(tmp string) error {
		c, err := t.copyTo(filepath.Join(tmp, "forge"))
		if err != nil {
			return err
		}
		old, err := c.lastTag(version)
		if err != nil {
			return err
		}
		if old == "" {
			old = before
			fmt.Println("there is no release yet: the upgrade that is tried is one from the same files")
			if err := c.tagAs(old); err != nil {
				return err
			}
		} else if err := c.apiSince(old, version, tmp); err != nil {
			return err
		}
		if err := c.tagAs(version); err != nil {
			return err
		}
		u, err := newUser(filepath.Join(tmp, "user"), c, version)
		if err != nil {
			return err
		}
		if err := u.tries(old); err != nil {
			return err
		}
		return u.buildsTheSame()
	})
}

// next is the version that the next release may have.
func next(t *tree, named string) string {
	if _, err := run(t.root, nil, "git", "rev-parse", "--verify", "--quiet", named); err != nil {
		return named
	}
	var major, minor int
	fmt.Sscanf(semver.MajorMinor(named), "v%d.%d", &major, &minor)
	return fmt.Sprintf("v%d.%d.0", major, minor+1)
}

// tagAs makes a commit with a version, as a maintainer does, and its tags.
func (t *tree) tagAs(version string) error {
	if err := t.prepare(version, time.Now(), false); err != nil {
		return err
	}
	return errors.Join(t.commit(version), t.makeTags(version))
}

// tries does what users do with a release.
func (u *user) tries(old string) error {
	text, err := os.ReadFile(filepath.Join(u.forge.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	alone := !strings.Contains(section(string(text), u.version), incompatible)
	for _, m := range u.forge.released() {
		name, try := "go get", u.library
		if strings.HasPrefix(m.dir, "cmd/") {
			name, try = "go install", u.installs
		}
		if err := step(fmt.Sprintf("%s %s@%s", name, m.path(), u.version), func() error { return try(m) }); err != nil {
			return err
		}
		if _, err := run(u.forge.root, nil, "git", "rev-parse", "--verify", "--quiet", m.tag(old)); err != nil || name != "go get" {
			continue // it is new, or a command
		}
		if err := step("an upgrade from "+old, func() error { return u.upgrades(m, old, alone) }); err != nil {
			return err
		}
	}
	if err := step("the program of README.md", u.readme); err != nil {
		return err
	}
	return step("a clone with GOWORK=off", func() error { return u.clones(filepath.Join(u.home, "clone")) })
}

// buildsTheSame builds the command in two folders.
func (u *user) buildsTheSame() error {
	return step("the same bytes from another folder", func() error {
		other := filepath.Join(u.home, "another", "folder")
		if err := u.checkout(other); err != nil {
			return err
		}
		var built [2][]byte
		for i, dir := range []string{filepath.Join(u.home, "clone"), other} {
			name := filepath.Join(u.home, fmt.Sprint("built", i))
			if err := u.build(dir, runtime.GOOS, runtime.GOARCH, name); err != nil {
				return err
			}
			var err error
			if built[i], err = os.ReadFile(name); err != nil {
				return err
			}
		}
		if !bytes.Equal(built[0], built[1]) {
			return errors.New("two builds of one commit differ: is a folder, a time or a number in them?")
		}
		return nil
	})
}

func temporary(f func(dir string) error) error {
	tmp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	return f(tmp)
}
