package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// tests knows the tests of the repository.
type tests struct {
	all     []test
	files   []string // of tests, from the root
	modules []string // their folders
}

type test struct{ folder, name string }

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)

func findTests(root string) (*tests, error) {
	t := new(tests)
	err := filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if name == ".git" || name == ".cache" || name == "node_modules" || name == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		file, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if name == "go.mod" {
			t.modules = append(t.modules, filepath.Dir(file))
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		t.files = append(t.files, filepath.ToSlash(file))
		source, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			t.all = append(t.all, test{filepath.Dir(file), m[1]})
		}
		return nil
	})
	return t, err
}

var (
	testName = regexp.MustCompile(`^((?:Test|Fuzz|Benchmark|Example)[A-Z_]\w*)(/\S*)?$`)
	testFile = regexp.MustCompile(`^[\w./*-]+_test\.go$`)
)

// named tells whether text in backticks names a test or a file of tests, and
// whether that exists. A file may be named by the end of its path, or by a pattern.
func (t *tests) named(text string) (known, is bool) {
	if m := testName.FindStringSubmatch(text); m != nil {
		for _, one := range t.all {
			if one.name == m[1] {
				return true, true
			}
		}
		return false, true
	}
	if !testFile.MatchString(text) {
		return false, false
	}
	depth := strings.Count(text, "/")
	for _, file := range t.files {
		parts := strings.Split(file, "/")
		if len(parts) <= depth {
			continue
		}
		if ok, err := path.Match(text, strings.Join(parts[len(parts)-1-depth:], "/")); ok && err == nil {
			return true, true
		}
	}
	return false, true
}
