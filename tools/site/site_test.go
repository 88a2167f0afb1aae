package main

import (
	"html"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

// built is the site of the repository, by path.
var built = sync.OnceValues(func() (map[string]string, error) {
	folder, err := os.MkdirTemp("", "fenlock-site-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	// Twice: the second replaces the first.
	for range 2 {
		if err := run("../..", folder, "https://source.example/fenlock/", ""); err != nil {
			return nil, err
		}
	}
	files := make(map[string]string)
	err = filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, file)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	return files, err
})

func builtFiles(t *testing.T) map[string]string {
	t.Helper()
	files, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	address = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchors = regexp.MustCompile(` id="([^"]*)"`)
	about   = regexp.MustCompile(`<meta name="description" content="[^"]{10,}">`)
	titled  = regexp.MustCompile(`<title>[^<]+</title>`)
)

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	files := builtFiles(t)
	ids := make(map[string]bool)
	for name, text := range files {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		for _, m := range anchors.FindAllStringSubmatch(text, -1) {
			if at := name + "#" + html.UnescapeString(m[1]); ids[at] {
				t.Errorf("%s is there twice", at)
			} else {
				ids[at] = true
			}
		}
	}
	pages, links, within := 0, 0, 0
	for name, text := range files {
		if !strings.HasSuffix(name, ".html") || name == "404.html" {
			continue // the last is for any address, and begins each of its own with /
		}
		pages++
		if !about.MatchString(text) || !titled.MatchString(text) {
			t.Errorf("%s has no description, or no title", name)
		}
		for _, m := range address.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(html.UnescapeString(m[1]))
			switch {
			case err != nil:
				t.Errorf("%s: %v", name, err)
				continue
			case u.Scheme == "data":
				continue
			case u.Host == "source.example":
				file, _ := strings.CutPrefix(u.Path, "/fenlock/blob/main/")
				if _, err := os.Stat(filepath.Join("../..", file)); err != nil && u.Path != "/fenlock/" && u.Path != "/fenlock" {
					t.Errorf("%s: %s is no file of the repository", name, m[1])
				}
				if strings.HasSuffix(file, ".md") {
					t.Errorf("%s: %s leaves the site, which has that document", name, m[1])
				}
				continue
			case u.IsAbs():
				continue
			}
			links++
			to := name
			if u.Path != "" {
				to = path.Join(path.Dir(name), u.Path)
			}
			if files[path.Join(to, "index.html")] != "" {
				to = path.Join(to, "index.html")
			}
			if strings.HasSuffix(to, ".md") {
				t.Errorf("%s: %s leads to Markdown", name, m[1])
			}
			if _, ok := files[to]; !ok {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			} else if u.Fragment != "" {
				within++
				if !ids[to+"#"+u.Fragment] {
					t.Errorf("%s: %s: there is no such heading", name, m[1])
				}
			}
		}
	}
	if pages < 20 || links < 500 || within < 100 {
		t.Errorf("only %d pages, %d links, %d anchors: the test does not see them", pages, links, within)
	}
	for _, name := range []string{"index.html", "docs/index.html", "search/search_index.json", "llms.txt",
		"docs/command.md"} {
		if files[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	listed := regexp.MustCompile(`(?m)^- \[.*?\]\((.*?)\)`).FindAllStringSubmatch(files["llms.txt"], -1)
	if len(listed) < 20 {
		t.Errorf("llms.txt lists %d documents", len(listed))
	}
	for _, m := range listed {
		if files[m[1]] == "" {
			t.Errorf("llms.txt: the site has no %s", m[1])
		}
	}
}

var (
	article = regexp.MustCompile(`(?s)<article.*?>(.*)</article>`)
	mark    = regexp.MustCompile(`<a class="headerlink".*?</a>`)
	tag     = regexp.MustCompile(`</?[^>]*>`)
	named   = regexp.MustCompile(`(?s)<a [^>]*>(?:<code>)?[^<>]*</a>`)
	spaces  = regexp.MustCompile(`\s+`)
)

// seen is what a reader sees: the words, and how many there are of what they are in.
func seen(page string) (string, map[string]int) {
	counts := make(map[string]int)
	for _, element := range []string{"a", "blockquote", "code", "em", "h1", "h2", "h3", "h4", "img", "li", "ol", "pre",
		"strong", "table", "td", "th", "ul"} {
		counts[element] = len(regexp.MustCompile("<"+element+"[ >]").FindAllString(page, -1))
	}
	text := html.UnescapeString(tag.ReplaceAllString(page, ""))
	return spaces.ReplaceAllString(text, ""), counts
}

// MkDocs reads another Markdown than GitHub, for which the documents are written: no page may
// differ in its words, lists, tables or code.
func TestPagesAreAsOnGitHub(t *testing.T) {
	files := builtFiles(t)
	s, err := load("../..", "https://source.example/fenlock/")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.pages {
		name := p.doc.Path
		m := article.FindStringSubmatch(files[htmlPath(name)])
		if m == nil {
			t.Errorf("%s has no page", name)
			continue
		}
		var rendered strings.Builder
		if err := docs.Markdown.Renderer().Render(&rendered, p.doc.Source, p.doc.Root); err != nil {
			t.Fatal(err)
		}
		// Links that are named by a file get its title.
		want, wants := seen(named.ReplaceAllString(rendered.String(), "<a >"))
		got, gots := seen(named.ReplaceAllString(strings.ReplaceAll(mark.ReplaceAllString(m[1], ""), "<p>"+diagram+"</p>",
			""), "<a >"))
		if !maps.Equal(wants, gots) {
			t.Errorf("%s has %v, and on GitHub %v", name, gots, wants)
		}
		if got != want {
			i := 0
			for i < len(got) && i < len(want) && got[i] == want[i] {
				i++
			}
			from := max(i-30, 0)
			t.Errorf("%s: %q, and on GitHub %q", name, got[from:min(i+50, len(got))], want[from:min(i+50, len(want))])
		}
	}
}

// What is no site is not emptied.
func TestOtherFoldersStay(t *testing.T) {
	out := t.TempDir()
	kept := filepath.Join(out, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run("../..", out, "https://source.example/fenlock", ""); err == nil {
		t.Error("a folder with something else in it was taken")
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

// htmlPath returns where a document's page is: README.md is its folder's index.
func htmlPath(markdown string) string {
	if path.Base(markdown) == "README.md" {
		return path.Join(path.Dir(markdown), "index.html")
	}
	return strings.TrimSuffix(markdown, ".md") + ".html"
}
