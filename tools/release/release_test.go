package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// toy makes a small repository with the shape of this one.
func toy(t *testing.T) *tree {
	t.Helper()
	dir := t.TempDir()
	const ours = "github.com/fenlock/fenlock"
	files := map[string]string{
		".gitignore":               "ignored.txt\n",
		"LICENSE":                  "a licence\n",
		"README.md":                "# Toy\n\n```go\npackage main\n\nimport (\n\t_ \"" + ours + "\"\n\t_ \"" + ours + "/node/a\"\n)\n\nfunc main() {}\n```\n",
		"go.mod":                   "module " + ours + "\n\ngo 1.25.0\n",
		"root.go":                  "package fenlock\n\nfunc Old() {}\n",
		"go.work":                  "go 1.26.0\n\nuse (\n\t.\n\t./node/a\n\t./cmd/fenlock\n)\n\nreplace (\n\t" + ours + " v0.1.0 => ./\n\t" + ours + "/node/a v0.1.0 => ./node/a\n)\n",
		"node/a/go.mod":            "module " + ours + "/node/a\n\ngo 1.25.0\n\nrequire " + ours + " v0.1.0\n",
		"node/a/a.go":              "package a\n\nimport (\n\t_ \"embed\"\n\n\t_ \"" + ours + "\"\n)\n\n//go:embed there.txt\nvar Text string\n",
		"node/a/there.txt":         "there\n",
		"cmd/fenlock/go.mod":       "module " + ours + "/cmd/fenlock\n\ngo 1.25.0\n\nrequire (\n\t" + ours + " v0.1.0\n\t" + ours + "/node/a v0.1.0\n)\n",
		"cmd/fenlock/main.go":      "package main\n\nimport (\n\t\"fmt\"\n\t\"runtime/debug\"\n\n\t_ \"" + ours + "/node/a\"\n)\n\nfunc main() {\n\tinfo, _ := debug.ReadBuildInfo()\n\tfmt.Println(info.Main.Version, \"it holds\")\n}\n",
		"CHANGELOG.md":             "# Changelog\n\n## Unreleased\n\n- new\n",
		"node/a/CHANGELOG.md":      "# Changelog\n\n## Unreleased\n\n- new\n",
		"cmd/fenlock/CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- new\n",
	}
	for name, text := range files {
		write(t, dir, name, text)
	}
	git(t, dir, "init", "-q")
	for _, s := range [][2]string{{"user.name", "toy"}, {"user.email", "toy@localhost"}, {"commit.gpgSign", "false"}, {"tag.gpgSign", "false"}} {
		git(t, dir, "config", s[0], s[1])
	}
	return loaded(t, dir)
}

func loaded(t *testing.T, dir string) *tree {
	t.Helper()
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "toy")
	tree, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if _, err := run(dir, nil, "git", args...); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// change replaces a piece of a file.
func change(t *testing.T, dir, name, old, new string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q: %v", name, old, err)
	}
	write(t, dir, name, strings.Replace(string(text), old, new, 1))
}

// wants checks what an error says, "" for none.
func wants(t *testing.T, err error, text string) {
	t.Helper()
	if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
		t.Errorf("the error is %v, and not one with %q", err, text)
	}
}

// What a release can be wrong in, each found by what a user would run into.
func TestCheck(t *testing.T) {
	for _, test := range []struct{ name, file, old, new, want string }{
		{name: "sound"},
		{"replace", "node/a/go.mod", "require", "replace example.com/x => ../x\n\nrequire", "node/a/go.mod has a replace directive"},
		{"another version", "node/a/go.mod", "v0.1.0", "v0.0.9", "others require v0.0.9"},
		{"a file that is in no clone", "node/a/a.go", "there.txt", "ignored.txt", "no matching files found"},
		{"a file of another module", "node/a/a.go", "there.txt", "../../LICENSE", "invalid pattern"},
		{"no program", "README.md", "```go", "```", "README.md has no Go program"},
		{"an import that nothing requires", "cmd/fenlock/go.mod", "\tgithub.com/fenlock/fenlock/node/a v0.1.0\n", "", "cannot find module providing package"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			toy := toy(t)
			write(t, toy.root, "node/a/ignored.txt", "in the folder only\n")
			if test.file != "" {
				change(t, toy.root, test.file, test.old, test.new)
			}
			wants(t, check(loaded(t, toy.root), ""), test.want)
			if changes, err := run(toy.root, nil, "git", "status", "--porcelain"); err != nil || changes != "" {
				t.Errorf("the check left changes: %v\n%s", err, changes)
			}
		})
	}
}

func TestModuleThatIsMissing(t *testing.T) {
	neverReleased = append(neverReleased, "node/a")
	defer func() {
		neverReleased = slices.DeleteFunc(neverReleased, func(dir string) bool { return dir == "node/a" })
	}()
	wants(t, check(toy(t), ""), "unknown revision node/a/")
}

// A maintainer's way from one release to the next.
func TestReady(t *testing.T) {
	t.Parallel()
	toy := toy(t)
	prepare := func(version string) error {
		tree := loaded(t, toy.root)
		if err := tree.prepare(version, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), true); err != nil {
			return err
		}
		loaded(t, toy.root)
		return nil
	}
	ready := func(version string) error {
		tree, err := load(toy.root)
		if err != nil {
			t.Fatal(err)
		}
		return ready(tree, version)
	}
	wants(t, ready("v0.1.0"), "make version VERSION=v0.1.0")
	wants(t, prepare("v0.1.0"), "")
	wants(t, ready("v0.1.0"), "")
	wants(t, prepare("v0.1.0"), "") // again, and nothing changes
	write(t, toy.root, "new.go", "package fenlock\n")
	wants(t, ready("v0.1.0"), "not committed:\n?? new.go")
	loaded(t, toy.root)
	wants(t, ready("v0.1.0"), "M cmd/fenlock/go.sum") // whose sums are of other files
	wants(t, prepare("v0.1.0"), "")
	wants(t, ready("v0.1.0"), "")

	tree := loaded(t, toy.root)
	wants(t, tree.makeTags("v0.1.0"), "")
	wants(t, ready("v0.1.0"), "")
	loaded(t, toy.root) // a commit later
	wants(t, ready("v0.1.0"), "v0.1.0 is a tag of")

	wants(t, prepare("v0.2.0"), "CHANGELOG.md says nothing about v0.2.0") // go.work was changed before
	git(t, toy.root, "checkout", "-q", ".")
	change(t, toy.root, "CHANGELOG.md", "\n## v0.1.0 (2026-01-02)", "\n## Unreleased\n\n- newer\n\n## v0.1.0 (2026-01-02)")
	change(t, toy.root, "node/a/a.go", "package a", "package a // changed")
	wants(t, prepare("v0.2.0"), "node/a/CHANGELOG.md says nothing about v0.2.0")
	change(t, toy.root, "node/a/a.go", "package a // changed", "package a")
	wants(t, prepare("v0.2.0"), "")
	wants(t, ready("v0.2.0"), "")
	for name, want := range map[string]string{
		"CHANGELOG.md":        "# Changelog\n\n## v0.2.0 (2026-01-02)\n\n- newer\n\n## v0.1.0 (2026-01-02)\n\n- new\n",
		"node/a/CHANGELOG.md": "# Changelog\n\n## v0.2.0 (2026-01-02)\n\n- Nothing has changed but the version.\n\n## v0.1.0 (2026-01-02)\n\n- new\n",
	} {
		if text, err := os.ReadFile(filepath.Join(toy.root, name)); err != nil || string(text) != want {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	wants(t, check(loaded(t, toy.root), ""), "") // the upgrade is one from the tag
}

func TestExportedNames(t *testing.T) {
	t.Parallel()
	toy := toy(t)
	wants(t, toy.prepare("v0.1.0", time.Now(), true), "")
	wants(t, loaded(t, toy.root).makeTags("v0.1.0"), "")
	change(t, toy.root, "CHANGELOG.md", "\n## v0.1.0", "\n## Unreleased\n\n- newer\n\n## v0.1.0")
	change(t, toy.root, "root.go", "func Old() {}", "func Old() {}\n\nfunc New() {}")
	wants(t, check(loaded(t, toy.root), ""), "")
	change(t, toy.root, "root.go", "func Old() {}", "")
	wants(t, check(loaded(t, toy.root), ""), "Old: removed")
	change(t, toy.root, "CHANGELOG.md", "- newer", "- Incompatible: Old is gone.")
	wants(t, check(loaded(t, toy.root), ""), "")
	wants(t, check(loaded(t, toy.root), "v1.0.0"), "Old: removed")
}

// A module's first release, of which nobody has written anything.
func TestChangelogWithoutSections(t *testing.T) {
	t.Parallel()
	toy := toy(t)
	write(t, toy.root, "node/a/CHANGELOG.md", "# Changelog\n")
	today := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	wants(t, toy.prepare("v0.1.0", today, true), "node/a/CHANGELOG.md says nothing about v0.1.0")
	wants(t, toy.prepare("v0.1.0", today, false), "")
	want := "# Changelog\n\n## v0.1.0 (2026-01-02)\n\n- Nothing has changed but the version.\n"
	if text, err := os.ReadFile(filepath.Join(toy.root, "node/a/CHANGELOG.md")); err != nil || string(text) != want {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestSection(t *testing.T) {
	log := "# Changelog\n\nWhat is new.\n\n## Unreleased\n\n- c\n\n## v0.2.0 (2026-01-02)\n\n- b\n- bb\n\n## v0.2.0-rc.1 (2026-01-01)\n\n- a\n"
	for title, want := range map[string]string{"Unreleased": "- c\n", "v0.2.0": "- b\n- bb\n", "v0.2.0-rc.1": "- a\n", "v0.2": "", "v0.1.0": ""} {
		if got := section(log, title); got != want {
			t.Errorf("%s: %q", title, got)
		}
	}
}

func TestSame(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		write(t, dir, "x", "x")
	}
	wants(t, same(a, b), "")
	write(t, b, "y", "y")
	wants(t, same(a, b), "different files")
	write(t, a, "y", "z")
	wants(t, same(a, b), "differ in y")
}

// That builds are the same rests on the folder being in none of them.
func TestBuildsThatDiffer(t *testing.T) {
	t.Parallel()
	toy := toy(t)
	wants(t, toy.tagAs("v0.1.0"), "")
	for flags, want := range map[string]string{"-modcacherw -trimpath": "", "-modcacherw": "differ"} {
		u, err := newUser(filepath.Join(t.TempDir(), "user"), toy, "v0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		u.env = append(u.env, "GOFLAGS="+flags)
		wants(t, u.clones(filepath.Join(u.home, "clone")), "")
		wants(t, u.buildsTheSame(), want)
	}
}

func TestVersionsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "0.1.0", "v0.1", "v0.1.0+meta", "latest"} {
		for _, what := range []string{"version", "make"} {
			if err := command([]string{what, version, t.TempDir()}); err == nil || !strings.Contains(err.Error(), "version") {
				t.Errorf("%s %q: %v", what, version, err)
			}
		}
	}
}

// A distribution that builds a clone has nothing but its go.sum files to go by.
func TestSumsOfSiblings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ with, want string }{
		{"fenlock v0.1.0 h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", "checksum mismatch"},
		{"fenlock v0.0.9 h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", "missing go.sum entry"},
	} {
		toy := toy(t)
		wants(t, toy.prepare("v0.1.0", time.Now(), true), "")
		sums, err := os.ReadFile(filepath.Join(toy.root, "node/a/go.sum"))
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(sums), "\n")
		change(t, toy.root, "node/a/go.sum", first+"\n", "github.com/fenlock/"+test.with)
		wants(t, loaded(t, toy.root).makeTags("v0.1.0"), "")
		u, err := newUser(filepath.Join(t.TempDir(), "user"), toy, "v0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		wants(t, u.clones(filepath.Join(u.home, "clone")), test.want)
	}
}
