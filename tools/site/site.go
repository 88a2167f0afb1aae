package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

var (
	//go:embed mkdocs.yml
	config string

	//go:embed extra.css
	extraCSS string
)

// site is all documents in their order.
type site struct {
	root       string
	repository string // its address
	sections   []docs.Section
	pages      []page
	titles     map[string]string // of the pages, by path
}

// page is one document.
type page struct {
	doc     *docs.Document
	chapter docs.Chapter
}

// load reads all documents.
func load(root, repository string) (*site, error) {
	sections, err := docs.ReadContents(root)
	if err != nil {
		return nil, err
	}
	s := &site{root: root, repository: strings.TrimSuffix(repository, "/"), sections: sections,
		titles: make(map[string]string)}
	all := []docs.Chapter{{Path: docs.Contents, Title: "All documents",
		About: "all documents of fenlock, in the order in which to read"}}
	for _, section := range sections {
		all = append(all, section.Chapters...)
	}
	for _, chapter := range all {
		doc, err := docs.Read(root, chapter.Path)
		if err != nil {
			return nil, err
		}
		s.pages = append(s.pages, page{doc, chapter})
		s.titles[chapter.Path] = chapter.Title
	}
	return s, nil
}

// build has MkDocs make the site in a folder, which is emptied first.
func (s *site) build(out string) error {
	if err := removable(out); err != nil {
		return err
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "fenlock-site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := s.stage(work); err != nil {
		return err
	}
	command := exec.Command("mkdocs", "build", "--strict", "--quiet", "--clean", "--site-dir", out)
	command.Dir = work
	if output, err := command.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		return errors.New("there is no mkdocs: scripts/install-servers.sh mkdocs installs it")
	} else if err != nil {
		return fmt.Errorf("mkdocs: %w\n%s", err, output)
	}
	// For programs that read Markdown.
	files := make(map[string][]byte)
	for _, p := range s.pages {
		files[p.doc.Path] = p.doc.Source
	}
	if files["llms.txt"], err = llmsText(s.root); err != nil {
		return err
	}
	return write(out, files)
}

// stage writes what MkDocs reads: its configuration, and a folder docs with the documents.
func (s *site) stage(work string) error {
	files := map[string][]byte{"mkdocs.yml": []byte(config + s.navigation()), "docs/extra.css": []byte(extraCSS)}
	for _, p := range s.pages {
		files[path.Join("docs", p.doc.Path)] = s.markdown(p)
		for _, picture := range p.pictures() {
			data, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(picture)))
			if err != nil {
				return err
			}
			files[path.Join("docs", picture)] = data
		}
	}
	return write(work, files)
}

// navigation returns docs/README.md as MkDocs wants it.
func (s *site) navigation() string {
	var out bytes.Buffer
	out.WriteString("nav:\n")
	for i, section := range s.sections {
		fmt.Fprintf(&out, "  - %q:\n", section.Title)
		for _, chapter := range section.Chapters {
			fmt.Fprintf(&out, "    - %q: %q\n", chapter.Title, chapter.Path)
		}
		if i == len(s.sections)-1 {
			fmt.Fprintf(&out, "    - %q: %q\n", s.titles[docs.Contents], docs.Contents)
		}
	}
	return out.String()
}

func write(folder string, files map[string][]byte) error {
	for name, data := range files {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removable reports whether a folder is an earlier site, or empty: nothing else is removed.
func removable(out string) error {
	entries, err := os.ReadDir(out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, "llms.txt")); err != nil {
		return errors.New(out + " is not empty, and no site: choose another folder")
	}
	return nil
}
