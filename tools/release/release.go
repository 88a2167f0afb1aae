package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// release checks that the commit is what the version shall be, builds what is published
// into a folder, and tags it here. Nothing leaves this machine. A second run at the same
// commit builds the same again, which is what the forge does when it gets the tags.
func release(t *tree, version, folder string) error {
	if err := ready(t, version); err != nil {
		return err
	}
	return temporary(func(tmp string) error {
		c, err := t.clone(filepath.Join(tmp, "forge"))
		if err != nil {
			return err
		}
		old, err := c.lastTag(version)
		if err != nil {
			return err
		}
		if old == "" {
			fmt.Println("there is no release yet whose exported names these could be compared with")
		} else if err := c.apiSince(old, version, tmp); err != nil {
			return err
		}
		if err := c.makeTags(version); err != nil {
			return err
		}
		u, err := newUser(filepath.Join(tmp, "user"), c, version)
		if err != nil {
			return err
		}
		if err := u.tries(old); err != nil {
			return err
		}
		if err := u.distTwice(folder); err != nil {
			return err
		}
		if err := t.makeTags(version); err != nil {
			return err
		}
		tags := t.tags(version)
		fmt.Printf("\n%s has what is published. The tags are here only. To release, push the commit, then the\n"+
			"modules' tags, and last and alone the one that starts the forge's work:\n\n"+
			"    git push origin HEAD\n    git push --atomic origin %s\n    git push origin %s\n\nUntil then \"git tag -d\" takes them back.\n",
			folder, strings.Join(tags[1:], " "), tags[0])
		return nil
	})
}

// ready tells why a commit cannot be released as a version.
func ready(t *tree, version string) error {
	if changes, err := run(t.root, nil, "git", "status", "--porcelain"); err != nil {
		return err
	} else if changes != "" {
		return fmt.Errorf("there are changes that are not committed:\n%s", changes)
	}
	head, err := run(t.root, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	for _, tag := range t.tags(version) {
		at, err := run(t.root, nil, "git", "rev-parse", "--verify", "--quiet", tag+"^{commit}")
		if err == nil && at != head {
			return fmt.Errorf("%s is a tag of %.12s already, and this is %.12s: module proxies keep the first one for ever, take another version", tag, at, head)
		}
	}
	if _, err := t.named(); err != nil {
		return err
	}
	return temporary(func(tmp string) error {
		c, err := t.clone(filepath.Join(tmp, "forge"))
		if err != nil {
			return err
		}
		if err := c.prepare(version, time.Now(), true); err != nil {
			return fmt.Errorf("not prepared for %s: %w", version, err)
		}
		if changes, err := run(c.root, nil, "git", "status", "--porcelain"); err != nil {
			return err
		} else if changes != "" {
			return fmt.Errorf("not prepared for %s: run make version VERSION=%[1]s and commit what it changes:\n%[2]s", version, changes)
		}
		return nil
	})
}

// distTwice builds all that is published in two folders, and keeps one if they are the same.
func (u *user) distTwice(folder string) error {
	var made [2]string
	for i := range made {
		made[i] = filepath.Join(u.home, fmt.Sprint("dist", i))
		err := step("everything that is published, from folder "+fmt.Sprint(i+1), func() error {
			from := filepath.Join(u.home, strings.Repeat("another", i+1))
			if err := u.checkout(from); err != nil {
				return err
			}
			return u.dist(from, made[i])
		})
		if err != nil {
			return err
		}
	}
	if err := same(made[0], made[1]); err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	entries, err := os.ReadDir(made[0])
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyFile(filepath.Join(made[0], e.Name()), filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// same tells which file two folders do not have in common, byte for byte.
func same(a, b string) error {
	sums := [2]string{}
	for i, dir := range []string{a, b} {
		var err error
		if sums[i], err = checksums(dir); err != nil {
			return err
		}
	}
	for line := range strings.Lines(sums[0]) {
		if !strings.Contains(sums[1], line) {
			return fmt.Errorf("two builds of one commit differ in %s: is a folder, a time or a number in it?", strings.Fields(line)[1])
		}
	}
	if len(sums[0]) != len(sums[1]) {
		return fmt.Errorf("two builds of one commit made different files:\n%s\n%s", sums[0], sums[1])
	}
	return nil
}
