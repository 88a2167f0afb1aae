package main

import (
	"html/template"
	"path/filepath"
	"strings"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

// view is what the template gets.
type view struct {
	Title          string // of the window
	Heading, About string
	Up             string // the way to the site's folder: "" or "../"
	Repository     string
	Body           template.HTML
	Sections       []navSection
	Previous, Next *navPage // nil at the ends
}

type navSection struct {
	Title string
	Pages []navPage
}

type navPage struct {
	Title, Href string
	Current     bool
	Headings    []docs.Heading // of the current page
}

// view returns what page number i shows. The last page is the contents.
func (s *site) view(i int) view {
	p := s.pages[i]
	v := view{
		Title: p.doc.Title(), Heading: p.doc.Title(), About: p.chapter.About, Body: p.body,
		Repository: s.repository, Up: strings.Repeat("../", strings.Count(p.out, "/")),
	}
	if v.Title != "fenlock" {
		v.Title += " · fenlock"
	}
	for _, section := range s.sections {
		nav := navSection{Title: section.Title}
		for _, chapter := range section.Chapters {
			to := navPage{Title: chapter.Title, Href: href(p, s.byPath[chapter.Path]), Current: chapter.Path == p.doc.Path}
			if to.Current {
				for _, h := range p.doc.Headings {
					if h.Level == 2 {
						to.Headings = append(to.Headings, h)
					}
				}
			}
			nav.Pages = append(nav.Pages, to)
		}
		v.Sections = append(v.Sections, nav)
	}
	beside := func(j int) *navPage {
		if j < 0 || j >= len(s.pages)-1 || i == len(s.pages)-1 {
			return nil
		}
		return &navPage{Title: s.pages[j].chapter.Title, Href: href(p, s.pages[j])}
	}
	v.Previous, v.Next = beside(i-1), beside(i+1)
	return v
}

// href returns the way from one page to another.
func href(from, to *page) string {
	way, err := filepath.Rel(filepath.Dir(filepath.FromSlash(from.out)), filepath.FromSlash(to.out))
	if err != nil {
		panic(err) // both are relative
	}
	return filepath.ToSlash(way)
}
