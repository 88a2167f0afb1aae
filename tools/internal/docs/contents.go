package docs

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// Contents is the document that lists all others, in the order in which to read them.
const Contents = "docs/README.md"

// Section is one heading of Contents with its chapters.
type Section struct {
	Title    string
	Chapters []Chapter
}

// Chapter is one line of Contents: - [Title](path): about.
type Chapter struct {
	Path  string // from the repository's root
	Title string // short, for navigation
	About string // one line
}

// ReadContents returns the sections of Contents. It fails if a document is missing from it, or
// there twice: what is not listed is not found.
func ReadContents(root string) ([]Section, error) {
	d, err := Read(root, Contents)
	if err != nil {
		return nil, err
	}
	var sections []Section
	var listed []string
	var wrong error
	walk(d.Root, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				sections = append(sections, Section{Title: d.Text(n)})
			}
		case *ast.ListItem:
			chapter, err := d.chapter(n)
			if err == nil && len(sections) == 0 {
				err = fmt.Errorf("%s: %s is listed before the first heading", Contents, chapter.Path)
			}
			if err == nil && slices.Contains(listed, chapter.Path) {
				err = fmt.Errorf("%s: %s is listed twice", Contents, chapter.Path)
			}
			if err != nil {
				wrong = err
				return
			}
			listed = append(listed, chapter.Path)
			last := &sections[len(sections)-1]
			last.Chapters = append(last.Chapters, chapter)
		}
	})
	if wrong != nil {
		return nil, wrong
	}
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			name := path.Join(path.Dir(pattern), filepath.Base(file))
			if name != Contents && !slices.Contains(listed, name) {
				return nil, fmt.Errorf("%s does not list %s: add a line where a reader should meet it", Contents, name)
			}
		}
	}
	return sections, nil
}

// chapter reads one line of the list.
func (d *Document) chapter(item *ast.ListItem) (Chapter, error) {
	written := d.Text(item)
	block := item.FirstChild()
	if block == nil {
		return Chapter{}, fmt.Errorf("%s: an item of the list is empty", Contents)
	}
	link, ok := block.FirstChild().(*ast.Link)
	if !ok {
		return Chapter{}, fmt.Errorf("%s: %q does not begin with a link", Contents, written)
	}
	title := d.Text(link)
	about, ok := strings.CutPrefix(strings.TrimPrefix(written, title), ": ")
	file, _, local := Local(Contents, string(link.Destination))
	if !ok || !local {
		return Chapter{}, fmt.Errorf("%s: %q is not - [title](file): what it is about", Contents, written)
	}
	return Chapter{Path: file, Title: title, About: about}, nil
}
