package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// neverReleased are the modules that are used from a checkout only. All others are
// released; arch_test.go of the root module has the same list.
var neverReleased = []string{"tests", "bench", "tools", "tools/etcd", "tools/release", "deploy/check", "examples", "examples/natsnode"}

// A tree is a checkout with all its modules, each after those that it requires.
type tree struct {
	root    string
	modules []module
}

// A module is a folder with a go.mod.
type module struct {
	dir  string // below the root, with slashes; "." is the root module
	file *modfile.File
}

func (m module) path() string { return m.file.Module.Mod.Path }

func (m module) released() bool { return !slices.Contains(neverReleased, m.dir) }

// log is the file in which users look for what is new in a module.
func (m module) log() string { return path.Join(m.dir, "CHANGELOG.md") }

// tag is what the go command looks for when a version of the module is asked for.
func (m module) tag(version string) string {
	return strings.TrimPrefix(m.dir+"/"+version, "./")
}

// load reads the modules that git knows, or would after "git add".
func load(root string) (*tree, error) {
	files, err := gitFiles(root, ":(glob)**/go.mod")
	if err != nil {
		return nil, err
	}
	found := map[string]module{} // by path
	paths := []string{}          // the folders' order, which is the same each time
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			return nil, err
		}
		if slices.Contains(strings.Split(f, "/"), "testdata") {
			continue
		}
		parsed, err := modfile.Parse(f, text, nil)
		if err != nil {
			return nil, err
		}
		p := parsed.Module.Mod.Path
		found[p] = module{path.Dir(f), parsed}
		if f == "go.mod" {
			paths = slices.Insert(paths, 0, p)
		} else {
			paths = append(paths, p)
		}
	}
	t := &tree{root: root}
	var add func(p string)
	add = func(p string) {
		m, ok := found[p]
		if !ok {
			return
		}
		delete(found, p)
		for _, r := range m.file.Require {
			add(r.Mod.Path)
		}
		t.modules = append(t.modules, m)
	}
	for _, p := range paths {
		add(p)
	}
	if i := slices.IndexFunc(t.modules, func(m module) bool { return m.dir == "." }); i != 0 {
		return nil, fmt.Errorf("%s has no root module that the others require", root)
	}
	return t, nil
}

// gitFiles are the files that are there of those that "git add" would add.
func gitFiles(root string, patterns ...string) ([]string, error) {
	out, err := run(root, nil, "git", append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, f := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(root, f)); err == nil && f != "" {
			files = append(files, f)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func (t *tree) sibling(path string) bool {
	return path == t.modules[0].path() || strings.HasPrefix(path, t.modules[0].path()+"/")
}

func (t *tree) released() []module {
	return slices.DeleteFunc(slices.Clone(t.modules), func(m module) bool { return !m.released() })
}

// named returns the version in which the modules require each other. It is an error
// if they do not agree, or if a released module replaces anything: "go install" refuses
// that in a command, and takes no notice of it in a library, which then has another
// module than it was tested with.
func (t *tree) named() (version string, err error) {
	for _, m := range t.modules {
		if m.released() && len(m.file.Replace) > 0 {
			return "", fmt.Errorf("%s/go.mod has a replace directive: put it into go.work", m.dir)
		}
		for _, r := range m.file.Require {
			if !t.sibling(r.Mod.Path) {
				continue
			}
			if version == "" {
				version = r.Mod.Version
			}
			if r.Mod.Version != version {
				return "", fmt.Errorf("%s/go.mod requires %s %s, and others require %s: make version VERSION=... sets all", m.dir, r.Mod.Path, r.Mod.Version, version)
			}
		}
	}
	return version, nil
}
