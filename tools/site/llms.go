package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/printer"
	"regexp"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/tools/internal/docs"
	"github.com/fenlock/fenlock/tools/internal/gopkg"
)

// llmsText returns llms.txt (llmstxt.org): what fenlock is, the core of its API, and all
// documents with a line each. It is made of doc.go, the code and docs/README.md, so that
// there is nothing to keep by hand.
func llmsText(root string) ([]byte, error) {
	pkg, err := gopkg.Read(root, ".")
	if err != nil {
		return nil, err
	}
	api := api{pkg}
	sections, err := docs.ReadContents(root)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("# fenlock\n\n> A distributed lock for Go and the shell: by majority over independent nodes, with fencing tokens,\n> fair queues and locks that extend themselves.\n\n")
	// The format has no headings before the lists of documents.
	text := heading.ReplaceAll(api.Markdown(api.Doc), []byte("**$1**"))
	fmt.Fprintf(&out, "%s\nThe core of package fenlock; go doc has the rest.\n\n```go\n", text)
	if err := api.core(&out); err != nil {
		return nil, err
	}
	out.WriteString("```\n")
	for _, section := range sections {
		fmt.Fprintf(&out, "\n## %s\n\n", section.Title)
		for _, c := range section.Chapters {
			fmt.Fprintf(&out, "- [%s](%s): %s\n", c.Title, c.Path, c.About)
		}
	}
	return out.Bytes(), nil
}

var heading = regexp.MustCompile(`(?m)^### (.*?) \{#.*\}$`)

// api is the root package, as its readers see it.
type api struct{ *gopkg.Package }

// core are the types whose methods are listed.
var core = []string{"Locker", "Lock", "Locks", "Slots", "Groups", "Admin"}

// core writes the functions, the core types' methods and the errors, each with the first
// sentence of its comment.
func (a *api) core(out *bytes.Buffer) error {
	i := slices.IndexFunc(a.Types, func(t *doc.Type) bool { return t.Name == "Config" })
	if i < 0 {
		return errors.New("package fenlock has no Config")
	}
	if err := a.fields(out, a.Types[i]); err != nil {
		return err
	}
	list := func(f *doc.Func) error {
		decl := *f.Decl
		decl.Doc, decl.Body = nil, nil
		var line bytes.Buffer
		if err := printer.Fprint(&line, a.Files, &decl); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s // %s\n", strings.Join(strings.Fields(line.String()), " "), a.Synopsis(f.Doc))
		return nil
	}
	for _, t := range a.Types {
		for _, f := range t.Funcs {
			if err := list(f); err != nil {
				return err
			}
		}
	}
	for _, f := range a.Funcs {
		if err := list(f); err != nil {
			return err
		}
	}
	for _, t := range a.Types {
		if !slices.Contains(core, t.Name) {
			continue
		}
		fmt.Fprintf(out, "\n// %s\n", a.Synopsis(t.Doc))
		for _, m := range t.Methods {
			if m.Name == "Format" {
				continue // for package fmt
			}
			if err := list(m); err != nil {
				return err
			}
		}
	}
	out.WriteString("\n// Errors, for errors.Is.\n")
	for _, v := range a.Vars {
		for _, spec := range v.Decl.Specs {
			value := spec.(*ast.ValueSpec)
			for _, name := range value.Names {
				if strings.HasPrefix(name.Name, "Err") {
					fmt.Fprintf(out, "%s // %s\n", name.Name, a.Synopsis(value.Doc.Text()+value.Comment.Text()))
				}
			}
		}
	}
	return nil
}

// fields writes a struct's fields.
func (a *api) fields(out *bytes.Buffer, t *doc.Type) error {
	spec := t.Decl.Specs[0].(*ast.TypeSpec)
	fmt.Fprintf(out, "// %s\ntype %s struct {\n", a.Synopsis(t.Doc), t.Name)
	for _, field := range spec.Type.(*ast.StructType).Fields.List {
		var kind bytes.Buffer
		if err := printer.Fprint(&kind, a.Files, field.Type); err != nil {
			return err
		}
		for _, name := range field.Names {
			if name.IsExported() {
				fmt.Fprintf(out, "\t%s %s // %s\n", name.Name, kind.String(), a.Synopsis(field.Doc.Text()+field.Comment.Text()))
			}
		}
	}
	out.WriteString("}\n\n")
	return nil
}
