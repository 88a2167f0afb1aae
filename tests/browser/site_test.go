package browser_test

import (
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// widened lists what is wider than the window, but for what scrolls in a box of its own.
const widened = `(() => {
  const wide = document.documentElement.clientWidth, all = [];
  if (document.documentElement.scrollWidth > wide) all.push("the page: " + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll("body *")) {
    const box = e.getBoundingClientRect();
    if (!e.closest("pre *, .wide *, .drawing") && (box.right > wide + 1 || box.left < -1)) all.push(e.tagName + ": " + e.textContent.slice(0, 50));
  }
  return all;
})()`

// TestSite looks at every page of make site: the width of a telephone suffices, and who
// prefers the dark can read it too.
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
			pages = append(pages, file)
		}
		return err
	})
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	w := newWindow(t)
	w.size(390, 1000)
	for _, file := range pages {
		w.open("file://" + file)
		name := strings.ReplaceAll(strings.TrimPrefix(file, folder+"/"), "/", " ")
		for _, what := range eval[[]string](w, widened) {
			t.Errorf("%s: too wide is %s", name, what)
		}
		w.picture(name + " 390 light")
	}
	w.size(1280, 1000)
	w.scheme("dark")
	for _, name := range []string{"index.html", "docs/how-it-works.html", "docs/performance.html"} { // the others look the same
		w.open("file://" + filepath.Join(folder, name))
		w.picture(strings.ReplaceAll(name, "/", " ") + " 1280 dark")
		// The # beside a heading is seen by who points at it.
		eval[bool](w, `document.querySelectorAll(".anchor").forEach((e) => e.remove()), true`)
		for _, scheme := range []string{"dark", "light"} {
			w.scheme(scheme)
			w.until(fmt.Sprintf(`matchMedia("(prefers-color-scheme: %s)").matches`, scheme))
			for _, f := range eval[[]string](w, faint)[1:] {
				t.Errorf("%s, %s: too little contrast: %s", name, scheme, f)
			}
		}
		w.scheme("dark")
	}
}
