package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// lastTag is the newest version before the given one that has been released, "" for none.
func (t *tree) lastTag(before string) (string, error) {
	out, err := run(t.root, nil, "git", "tag", "--list", "v*")
	if err != nil {
		return "", err
	}
	tags := slices.DeleteFunc(lines(out), func(tag string) bool {
		return !semver.IsValid(tag) || semver.Compare(tag, before) >= 0
	})
	if len(tags) == 0 {
		return "", nil
	}
	return slices.MaxFunc(tags, semver.Compare), nil
}

// changed tells whether a user of the module can notice a difference to a version.
func (t *tree) changed(m module, since string) (bool, error) {
	if since == "" {
		return true, nil
	}
	args := []string{"diff", "--name-only", m.tag(since), "--", m.dir, ":(exclude)*_test.go", ":(exclude)**/go.sum", ":(exclude)**/CHANGELOG.md"}
	for _, other := range t.modules {
		if other.dir != m.dir && (m.dir == "." || strings.HasPrefix(other.dir, m.dir+"/")) {
			args = append(args, ":(exclude)"+other.dir)
		}
	}
	if _, err := run(t.root, nil, "git", "rev-parse", "--verify", "--quiet", m.tag(since)); err != nil {
		return true, nil // the module is new
	}
	out, err := run(t.root, nil, "git", args...)
	// The requirement of siblings is the version.
	return slices.ContainsFunc(lines(out), func(f string) bool { return !strings.HasSuffix(f, "go.mod") }), err
}

// clone makes a repository in dir with this one's history and tags.
func (t *tree) clone(dir string) (*tree, error) {
	if _, err := run(t.root, nil, "git", "clone", "-q", t.root, dir); err != nil {
		return nil, err
	}
	for _, setting := range [][2]string{{"user.name", "release"}, {"user.email", "release@localhost"}, {"commit.gpgSign", "false"}, {"tag.gpgSign", "false"}} {
		if _, err := run(dir, nil, "git", "config", setting[0], setting[1]); err != nil {
			return nil, err
		}
	}
	return load(dir)
}

// copyTo makes a clone whose newest commit has the files as they are here, committed or not.
func (t *tree) copyTo(dir string) (*tree, error) {
	if _, err := t.clone(dir); err != nil {
		return nil, err
	}
	if _, err := run(dir, nil, "git", "rm", "-rqf", "--ignore-unmatch", "."); err != nil {
		return nil, err
	}
	files, err := gitFiles(t.root)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := copyFile(filepath.Join(t.root, f), filepath.Join(dir, f)); err != nil {
			return nil, err
		}
	}
	c := &tree{root: dir}
	if err := c.commit("the files as they are"); err != nil {
		return nil, err
	}
	return load(dir)
}

func (t *tree) commit(message string) error {
	if _, err := run(t.root, nil, "git", "add", "--all"); err != nil {
		return err
	}
	_, err := run(t.root, nil, "git", "commit", "-q", "--allow-empty", "--no-verify", "-m", message)
	return err
}

// tags are those of a version, the root module's first.
func (t *tree) tags(version string) []string {
	var tags []string
	for _, m := range t.released() {
		tags = append(tags, m.tag(version))
	}
	return tags
}

// makeTags makes those that are missing.
func (t *tree) makeTags(version string) error {
	for _, tag := range t.tags(version) {
		if _, err := run(t.root, nil, "git", "rev-parse", "--verify", "--quiet", "refs/tags/"+tag); err == nil {
			continue
		}
		if _, err := run(t.root, nil, "git", "tag", "-a", "-m", "fenlock "+version, tag); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
