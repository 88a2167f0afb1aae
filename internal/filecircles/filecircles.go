// Package filecircles finds the files of a package that use each other in a circle. A reader of one
// file of a circle has to read all of them, and a change of one can reach each.
package filecircles

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Circles returns which files of the package in a directory use each other in a circle. These are
// file names, sorted, in groups of at least two. In a group each uses each, directly or by way of
// the others. Beside them it returns the uses. For {a, b} these are, in order, the names that file
// a uses and file b declares: package-level names, methods and fields.
//
// It looks at the files without tests that are built for Linux on amd64. Names of
// other packages do not count, so that those need not be there: of modules, nothing
// is known. Of the standard library what is known matters, because a value can pass
// through it (atomic.Pointer) before a field of it is used.
func Circles(dir string) (circles [][]string, uses map[[2]string][]string, err error) {
	fset := token.NewFileSet()
	files, err := parse(fset, dir)
	if err != nil {
		return nil, nil, err
	}
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{
		Importer:    known{},
		FakeImportC: true,
		Error:       func(error) {}, // names of packages that are not known
	}
	pkg, _ := config.Check(dir, fset, files, &info)

	names := make(map[[2]string]map[string]bool)
	for ident, object := range info.Uses {
		// Names within a function are used in their own file only. A package that is
		// imported belongs to the file that imports it.
		if object.Pkg() != pkg {
			continue
		}
		edge := [2]string{fileOf(fset, ident.Pos()), fileOf(fset, object.Pos())}
		if edge[0] == edge[1] {
			continue
		}
		if names[edge] == nil {
			names[edge] = make(map[string]bool)
		}
		names[edge][object.Name()] = true
	}
	uses = make(map[[2]string][]string)
	for edge, set := range names {
		uses[edge] = slices.Sorted(maps.Keys(set))
	}
	return components(uses), uses, nil
}

func fileOf(fset *token.FileSet, pos token.Pos) string { return filepath.Base(fset.File(pos).Name()) }

// parse reads the files that belong to the package.
func parse(fset *token.FileSet, dir string) ([]*ast.File, error) {
	linux := build.Default
	linux.GOOS, linux.GOARCH, linux.CgoEnabled, linux.BuildTags = "linux", "amd64", false, nil
	found, err := linux.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range found.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// known imports the standard library as it was compiled, and an empty package for
// everything else.
type known struct{}

var (
	libraryLock sync.Mutex
	library     = importer.Default()
)

func (known) Import(name string) (*types.Package, error) {
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		libraryLock.Lock()
		defer libraryLock.Unlock()
		return library.Import(name)
	}
	unknown := types.NewPackage(name, path.Base(name))
	unknown.MarkComplete()
	return unknown, nil
}

// components returns the strongly connected components of more than one file.
// A package has few files: who reaches whom is a table.
func components(uses map[[2]string][]string) (circles [][]string) {
	reaches := make(map[[2]string]bool)
	set := make(map[string]bool)
	for edge := range uses {
		reaches[edge] = true
		set[edge[0]], set[edge[1]] = true, true
	}
	files := slices.Sorted(maps.Keys(set))
	for _, by := range files {
		for _, a := range files {
			for _, b := range files {
				if reaches[[2]string{a, by}] && reaches[[2]string{by, b}] {
					reaches[[2]string{a, b}] = true
				}
			}
		}
	}
	for _, first := range files {
		var circle []string
		for _, other := range files {
			if other == first || reaches[[2]string{first, other}] && reaches[[2]string{other, first}] {
				circle = append(circle, other)
			}
		}
		if len(circle) > 1 && circle[0] == first {
			circles = append(circles, circle)
		}
	}
	return circles
}
