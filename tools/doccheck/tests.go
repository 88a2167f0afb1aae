package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fenlock/fenlock/tools/internal/docs"
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
	err := docs.Walk(root, func(file string) error {
		folder := filepath.FromSlash(path.Dir(file))
		if path.Base(file) == "go.mod" {
			t.modules = append(t.modules, folder)
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		t.files = append(t.files, file)
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			t.all = append(t.all, test{folder, m[1]})
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
