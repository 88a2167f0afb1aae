// Package gopkg reads the documentation of the repository's Go packages, without
// compiling anything.
package gopkg

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Module is the path of the root module, which those of all others begin with.
const Module = "github.com/fenlock/fenlock"

// Package is a package as its readers see it.
type Package struct {
	*doc.Package
	Files *token.FileSet
	// Sources are its own files, without those of tests.
	Sources []*ast.File
}

// Read reads the package in a folder below the repository's root, and its examples.
// It returns nil if there is none.
func Read(root, folder string) (*Package, error) {
	dir := filepath.Join(root, filepath.FromSlash(folder))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	p := &Package{Files: token.NewFileSet()}
	var all []*ast.File
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			continue
		}
		if ok, err := build.Default.MatchFile(dir, name); err != nil || !ok {
			continue // of another system; what is no Go, the compiler says
		}
		file, err := parser.ParseFile(p.Files, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		all = append(all, file)
		if !strings.HasSuffix(name, "_test.go") {
			p.Sources = append(p.Sources, file)
		}
	}
	if len(p.Sources) == 0 {
		return nil, nil
	}
	if p.Package, err = doc.NewFromFiles(p.Files, all, path.Join(Module, folder), doc.PreserveAST); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return p, nil
}

// Position says where something is, from the root.
func (p *Package) Position(root string, at token.Pos) string {
	position := p.Files.Position(at)
	if name, err := filepath.Rel(root, position.Filename); err == nil {
		position.Filename = name
	}
	return fmt.Sprintf("%s:%d", filepath.ToSlash(position.Filename), position.Line)
}
