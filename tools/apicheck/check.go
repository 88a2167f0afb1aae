package main

import (
	"errors"
	"fmt"
	"go/ast"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/tools/internal/gopkg"
)

// notPublic are folders whose packages are not to be imported.
var notPublic = []string{"tests", "bench", "tools", "deploy", "examples"}

// check looks at all public packages below root, and tells what they lack.
func check(root string) (problems []string, packages int, err error) {
	err = filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		folder, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		name := entry.Name()
		if name == "internal" || name == "testdata" || name == "node_modules" || name == "bin" ||
			folder != "." && strings.HasPrefix(name, ".") || slices.Contains(notPublic, folder) {
			return fs.SkipDir
		}
		p, err := gopkg.Read(root, filepath.ToSlash(folder))
		if err != nil || p == nil || p.Name == "main" {
			return err
		}
		packages++
		problems = append(problems, lacks(root, folder, p)...)
		return nil
	})
	if err == nil && packages == 0 {
		err = errors.New("no public package found: is this the right folder?")
	}
	return problems, packages, err
}

// lacks tells what a package has to say still.
func lacks(root, folder string, p *gopkg.Package) []string {
	var all []string
	if !strings.HasPrefix(p.Doc, "Package "+p.Name+" ") {
		all = append(all, fmt.Sprintf("%s: no overview: a comment that begins with: Package %s", folder, p.Name))
	}
	if !hasExample(p) {
		all = append(all, fmt.Sprintf("%s: no example: a func Example... in a file of tests", folder))
	}
	for _, file := range p.Sources {
		for _, decl := range file.Decls {
			for _, name := range silent(decl) {
				all = append(all, fmt.Sprintf("%s: %s has no comment", p.Position(root, name.Pos()), name.Name))
			}
		}
	}
	return all
}

func hasExample(p *gopkg.Package) bool {
	found := len(p.Examples) > 0
	for _, f := range p.Funcs {
		found = found || len(f.Examples) > 0
	}
	for _, t := range p.Types {
		found = found || len(t.Examples) > 0
		for _, f := range slices.Concat(t.Funcs, t.Methods) {
			found = found || len(f.Examples) > 0
		}
	}
	return found
}

// silent returns the exported names of a declaration that have no comment. A comment of a
// group is one of each constant and variable in it, and one of a line too. Fields may be
// left to the comment of their type: what a Name is, is clear from there.
func silent(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d.Recv)) && !standard(d) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var all []*ast.Ident
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				if d.Doc == nil && s.Doc == nil && s.Comment == nil {
					all = append(all, exported(s.Names)...)
				}
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || len(d.Specs) > 1) {
					all = append(all, s.Name)
				}
			}
		}
		return all
	}
	return nil
}

func exported(names []*ast.Ident) []*ast.Ident {
	return slices.DeleteFunc(slices.Clone(names), func(n *ast.Ident) bool { return !n.IsExported() })
}

func exportedReceiver(recv *ast.FieldList) bool {
	name := recv.List[0].Type
	if star, ok := name.(*ast.StarExpr); ok {
		name = star.X
	}
	if index, ok := name.(*ast.IndexExpr); ok {
		name = index.X
	}
	id, ok := name.(*ast.Ident)
	return ok && id.IsExported()
}

// standard are methods that readers know by their interface.
func standard(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "Is", "String"}, d.Name.Name)
}
