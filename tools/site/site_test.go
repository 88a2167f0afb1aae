package main

import (
	"html"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// built is the site of the repository, by path.
func built(t *testing.T) map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "site")
	// Twice: the second replaces the first.
	for range 2 {
		if err := run("../..", out, "https://source.example/fenlock/", ""); err != nil {
			t.Fatal(err)
		}
	}
	files := make(map[string]string)
	err := filepath.WalkDir(out, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(out, file)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	address = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchors = regexp.MustCompile(` id="([^"]*)"`)
	about   = regexp.MustCompile(`<meta name="description" content="[^"]{20,}">`)
	titled  = regexp.MustCompile(`<title>[^<]+</title>`)
)

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	files := built(t)
	ids := make(map[string]bool)
	for name, text := range files {
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
		if !strings.HasSuffix(name, ".html") {
			continue
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
	for _, name := range []string{"index.html", "docs/index.html", "style.css", "llms.txt", "docs/command.md"} {
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

// Every page leads to the next one, in the order of docs/README.md.
func TestNextAndPrevious(t *testing.T) {
	files := built(t)
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`)
	previous := regexp.MustCompile(`rel="prev" href="([^"]*)"`)
	at, seen := "index.html", 1
	for ; ; seen++ {
		m := next.FindStringSubmatch(files[at])
		if m == nil {
			break
		}
		to := path.Join(path.Dir(at), m[1])
		if back := previous.FindStringSubmatch(files[to]); back == nil || path.Join(path.Dir(to), back[1]) != at {
			t.Fatalf("%s does not lead back to %s", to, at)
		}
		at = to
	}
	pages := 0
	for name := range files {
		if strings.HasSuffix(name, ".html") {
			pages++
		}
	}
	if seen != pages-1 { // but for the contents
		t.Errorf("from page to page there are %d, of %d", seen, pages-1)
	}
}

func TestDiagrams(t *testing.T) {
	want := "<p>Diagram, in Mermaid's words:</p>\n<pre><code>sequenceDiagram\n"
	if files := built(t); !strings.Contains(files["index.html"], want) {
		t.Error("the diagram of README.md is not shown")
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

func TestColours(t *testing.T) {
	got := colours([]byte("x := \"<a>\" // why\nreturn"))
	want := `x := <span class="s">&#34;&lt;a&gt;&#34;</span> <span class="c">// why</span>` + "\n" + `<span class="k">return</span>`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
