package main

import (
	"bytes"
	_ "embed"
	"errors"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var styleCSS []byte

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// site is all pages in their order.
type site struct {
	root       string
	repository string // its address
	sections   []docs.Section
	pages      []*page
	byPath     map[string]*page
	pictures   map[string]bool // paths
}

// page is one document.
type page struct {
	doc     *docs.Document
	chapter docs.Chapter
	out     string // the page's path below the site's folder
	body    template.HTML
}

// load reads and renders all documents.
func load(root, repository string) (*site, error) {
	sections, err := docs.ReadContents(root)
	if err != nil {
		return nil, err
	}
	s := &site{root: root, repository: strings.TrimSuffix(repository, "/"), sections: sections, byPath: make(map[string]*page), pictures: make(map[string]bool)}
	for _, section := range sections {
		for _, chapter := range section.Chapters {
			if err := s.add(chapter); err != nil {
				return nil, err
			}
		}
	}
	// The contents are no chapter: they are beside all pages.
	if err := s.add(docs.Chapter{Path: docs.Contents, Title: "Documentation", About: "all documents of fenlock, in the order in which to read"}); err != nil {
		return nil, err
	}
	for _, p := range s.pages {
		if err := s.render(p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *site) add(chapter docs.Chapter) error {
	doc, err := docs.Read(s.root, chapter.Path)
	if err != nil {
		return err
	}
	p := &page{doc: doc, chapter: chapter, out: htmlPath(chapter.Path)}
	s.pages = append(s.pages, p)
	s.byPath[chapter.Path] = p
	return nil
}

// htmlPath returns where a document's page is: README.md is its folder's index.
func htmlPath(markdown string) string {
	if path.Base(markdown) == "README.md" {
		return path.Join(path.Dir(markdown), "index.html")
	}
	return strings.TrimSuffix(markdown, ".md") + ".html"
}

// write writes the site into a folder.
func (s *site) write(out string) error {
	if err := empty(out); err != nil {
		return err
	}
	files := map[string][]byte{"style.css": styleCSS}
	for i, p := range s.pages {
		var text bytes.Buffer
		if err := pageTemplate.Execute(&text, s.view(i)); err != nil {
			return err
		}
		files[p.out] = text.Bytes()
		files[p.doc.Path] = p.doc.Source
	}
	for picture := range s.pictures {
		data, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(picture)))
		if err != nil {
			return err
		}
		files[picture] = data
	}
	llms, err := llmsText(s.root)
	if err != nil {
		return err
	}
	files["llms.txt"] = llms
	for name, data := range files {
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// empty removes an earlier site, and nothing else: a folder without style.css is none.
func empty(out string) error {
	entries, err := os.ReadDir(out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, "style.css")); err != nil {
		return errors.New(out + " is not empty, and no site: choose another folder")
	}
	return os.RemoveAll(out)
}
