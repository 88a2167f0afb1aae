package browser_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// widened lists what is wider than the window, but for what scrolls in a box of its own.
const widened = `(() => {
  const wide = document.documentElement.clientWidth, all = [];
  if (document.documentElement.scrollWidth > wide) all.push("the page: " + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll("body *")) {
    const box = e.getBoundingClientRect();
    if (!e.closest("pre *, .md-typeset__scrollwrap *, .md-sidebar, .md-search, [hidden]") && (box.right > wide + 1 || box.left < -1)) all.push(e.tagName + ": " + e.textContent.slice(0, 50));
  }
  return all;
})()`

// TestSite looks at every page of make site. The width of a telephone suffices, the dark can be
// read too, and nothing is asked of another server.
func TestSite(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "site")
	build := exec.Command("go", "run", "./tools/site", "-out", folder)
	build.Dir = filepath.Join("..", "..")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	var pages []string
	err := filepath.WalkDir(folder, func(file string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(file, ".html") {
			pages = append(pages, strings.TrimPrefix(file, folder+"/"))
		}
		return err
	})
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	defer server.Close()
	w := newWindow(t)
	w.size(390, 1000)
	for _, name := range pages {
		w.open(server.URL + "/" + name)
		for _, what := range eval[[]string](w, widened) {
			t.Errorf("%s: too wide is %s", name, what)
		}
		w.picture(strings.ReplaceAll(name, "/", " ") + " 390")
	}
	// the others look the same
	for _, name := range []string{"index.html", "docs/how-it-works.html", "docs/performance.html"} {
		for _, scheme := range []string{"light", "dark"} {
			w.scheme(scheme)
			eval[bool](w, `localStorage.clear(), true`) // the theme remembers the first scheme that it has seen
			w.open(server.URL + "/" + name)
			w.until(fmt.Sprintf(`document.body.dataset.mdColorScheme == %q`,
				map[string]string{"light": "default", "dark": "slate"}[scheme]))
			for _, width := range []int64{390, 1280} {
				w.size(width, 1000)
				w.picture(fmt.Sprint(strings.ReplaceAll(name, "/", " "), " ", width, " ", scheme))
			}
			// Colors that are still on their way from the other scheme are none of either.
			eval[bool](w, `document.getAnimations().forEach((a) => a.finish()), true`)
			w.until(`document.getAnimations().length == 0`)
			// What is seen where the pointer or the focus is, or further down.
			eval[bool](w, `document.querySelectorAll(".headerlink, .md-top, .md-skip, .md-search, .md-header__topic + *").forEach((e) => e.remove()), true`)
			for _, f := range eval[[]string](w, faint)[1:] {
				t.Errorf("%s, %s: too little contrast: %s", name, scheme, f)
			}
		}
	}
	w.open(server.URL + "/")
	eval[bool](w, `document.querySelector("pre").scrollIntoView(), true`) // the theme adds a button when the code is seen
	w.until(`document.querySelector("pre > button.md-clipboard") != null`)
	eval[bool](w, `document.querySelector("input.md-search__input").focus(), true`)
	w.shows(".md-search-result__meta", "Type to start searching") // what is typed while the index is loaded is lost
	w.do(chromedp.KeyEvent("crontab"))
	w.shows(".md-search-result__list", "crontab")
	w.picture("search 1280 dark")
	for _, address := range eval[[]string](w, `performance.getEntriesByType("resource").map((e) => e.name)`) {
		if !strings.HasPrefix(address, server.URL+"/") {
			t.Errorf("the page asks for %s", address)
		}
	}
}
