// Package docs reads the Markdown documents of the repository: their headings and
// anchors, their links, their code, and the order in which docs/README.md lists them.
// The check of the documents and the site are made of it, so that what is checked
// is what is built.
package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Markdown is how the documents are read: as GitHub does.
var Markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))

// Document is one Markdown file.
type Document struct {
	Path   string // from the repository's root, with slashes
	Source []byte
	Root   ast.Node
	// Headings in their order, the title first.
	Headings []Heading
}

// Heading is one heading of a document.
type Heading struct {
	Node  *ast.Heading
	Level int
	Text  string
	ID    string // the anchor
}

// Link is one link or image of a document.
type Link struct {
	Line   int
	Target string // as it is written
	Node   ast.Node
}

// Read reads one document below the repository's root.
func Read(root, name string) (*Document, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	return Parse(name, source), nil
}

// Parse makes a Document of Markdown.
func Parse(name string, source []byte) *Document {
	source = bytes.ReplaceAll(source, []byte("\r\n"), []byte("\n"))
	d := &Document{Path: name, Source: source, Root: Markdown.Parser().Parse(text.NewReader(source))}
	used := make(map[string]int)
	walk(d.Root, func(n ast.Node) {
		if h, ok := n.(*ast.Heading); ok {
			title := d.Text(h)
			id := anchor(title, used)
			h.SetAttributeString("id", []byte(id))
			d.Headings = append(d.Headings, Heading{Node: h, Level: h.Level, Text: title, ID: id})
		}
	})
	return d
}

// Title returns the text of the first heading.
func (d *Document) Title() string {
	if len(d.Headings) == 0 {
		return d.Path
	}
	return d.Headings[0].Text
}

// HasAnchor reports whether #id leads somewhere in the document.
func (d *Document) HasAnchor(id string) bool {
	for _, h := range d.Headings {
		if h.ID == id {
			return true
		}
	}
	return false
}

// Links returns all links and images.
func (d *Document) Links() []Link {
	var all []Link
	walk(d.Root, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Link:
			all = append(all, Link{d.line(n), string(n.Destination), n})
		case *ast.Image:
			all = append(all, Link{d.line(n), string(n.Destination), n})
		}
	})
	return all
}

// Local reports whether a link's target is a file of the repository or a place in a document, and
// which. An address of the internet is neither. An empty file is the document itself.
func Local(from, target string) (file, anchor string, ok bool) {
	if strings.Contains(target, ":") || strings.HasPrefix(target, "//") {
		return "", "", false
	}
	file, anchor, _ = strings.Cut(target, "#")
	if file == "" {
		return from, anchor, true
	}
	return path.Join(path.Dir(from), file), anchor, true
}

// Text returns what a reader sees of a node, without its marks.
func (d *Document) Text(n ast.Node) string {
	var b strings.Builder
	walk(n, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(d.Source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		}
	})
	return b.String()
}

// All reads every document below root, but not what tools and packages leave there.
func All(root string) ([]*Document, error) {
	var all []*Document
	err := Walk(root, func(name string) error {
		if !strings.HasSuffix(name, ".md") {
			return nil
		}
		d, err := Read(root, name)
		all = append(all, d)
		return err
	})
	return all, err
}

// Walk has see be told of each file below root, by its path from there with slashes. What tools and
// packages leave there is left out.
func Walk(root string, see func(name string) error) error {
	return fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			return see(name)
		case slices.Contains([]string{".git", "node_modules", ".cache", "bin"}, entry.Name()):
			return fs.SkipDir
		}
		return nil
	})
}

// line returns the line of the first text in or before a node.
func (d *Document) line(n ast.Node) int {
	start := -1
	walk(n, func(n ast.Node) {
		if t, ok := n.(*ast.Text); ok && start < 0 {
			start = t.Segment.Start
		}
	})
	for ; start < 0 && n != nil; n = n.Parent() {
		if n.Type() == ast.TypeBlock && n.Lines().Len() > 0 {
			start = n.Lines().At(0).Start
		}
	}
	return 1 + bytes.Count(d.Source[:max(start, 0)], []byte("\n"))
}

func walk(root ast.Node, see func(ast.Node)) {
	// Only see returns errors, and this one does not.
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			see(n)
		}
		return ast.WalkContinue, nil
	})
}
