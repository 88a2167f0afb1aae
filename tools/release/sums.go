package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	modver "golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// sum returns the lines of go.sum about a module as it will be released: the hashes
// that the go command computes when it has fetched the tag.
func (t *tree) sum(m module, version string) (string, error) {
	list, err := gitFiles(t.root, m.dir)
	if err != nil {
		return "", err
	}
	var files []zip.File
	license := false
	for _, f := range list {
		name := strings.TrimPrefix(f, m.dir+"/")
		license = license || name == "LICENSE"
		files = append(files, file{name, filepath.Join(t.root, f)})
	}
	if !license { // the go command takes the repository's
		files = append(files, file{"LICENSE", filepath.Join(t.root, "LICENSE")})
	}
	packed, err := os.CreateTemp("", "module-*.zip")
	if err != nil {
		return "", err
	}
	defer os.Remove(packed.Name())
	defer packed.Close()
	if err := zip.Create(packed, modver.Version{Path: m.path(), Version: version}, files); err != nil {
		return "", fmt.Errorf("%s: %w", m.dir, err)
	}
	whole, err := dirhash.HashZip(packed.Name(), dirhash.Hash1)
	if err != nil {
		return "", err
	}
	mod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(t.root, m.dir, "go.mod"))
	})
	return fmt.Sprintf("%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", m.path(), version, whole, mod), err
}

// setSum replaces what a go.sum says of siblings, at the place where the go command
// would put it. All of their paths begin alike, so that they are together.
func (t *tree) setSum(m module, siblings string) error {
	name := filepath.Join(t.root, m.dir, "go.sum")
	old, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var before, after bytes.Buffer
	for line := range strings.Lines(string(old)) {
		path, _, _ := strings.Cut(line, " ")
		switch {
		case t.sibling(path):
		case path < t.modules[0].path():
			before.WriteString(line)
		default:
			after.WriteString(line)
		}
	}
	text := before.String() + siblings + after.String()
	if text == string(old) {
		return nil
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// A file is one of a module, for package zip.
type file struct{ name, on string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.on) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.on) }
