package browser_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/page"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

// tooWide lists what is wider than the window, or reaches out of it.
const tooWide = `(() => {
  const wide = document.documentElement.clientWidth, all = [];
  if (document.documentElement.scrollWidth > wide) all.push("the page: " + document.documentElement.scrollWidth);
  if (innerWidth !== %d) all.push("the window: " + innerWidth);
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility() || e.closest(".hidden") || getComputedStyle(e.closest("thead") || e).clipPath !== "none") continue;
    const box = e.getBoundingClientRect();
    if (box.width > 1 && (box.right > wide + 1 || box.left < -1)) all.push(e.tagName + "." + e.className + ": " + box.left + " to " + box.right);
  }
  return all;
})()`

// faint lists texts whose colour has less than 4.5 to 1 of contrast with what is behind them, by
// the formula of WCAG 2. Beside them it returns the number of texts.
const faint = `(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [s, h, c]) => [r * a + s * (1 - a), g * a + h * (1 - a), b * a + c * (1 - a), 1];
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (e) => {
    const chain = [];
    for (let at = e; at; at = at.parentElement) chain.unshift(rgba(getComputedStyle(at).backgroundColor));
    return chain.reduce((below, above) => over(above, below), [255, 255, 255, 1]);
  };
  const found = [];
  let texts = 0;
  const check = (e, style, text) => {
    texts++;
    const back = behind(e);
    let alpha = 1;
    for (let at = e; at; at = at.parentElement) alpha *= Number(getComputedStyle(at).opacity);
    const [r, g, b, a] = rgba(style.color);
    const [x, y] = [light(over([r, g, b, a * alpha], back)), light(back)].sort((p, q) => q - p);
    const contrast = (x + 0.05) / (y + 0.05);
    if (contrast < 4.5) found.push(contrast.toFixed(2) + " " + style.color + " on " + back + ": " + text.trim().slice(0, 40));
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const e = n.parentElement;
    if (n.data.trim() && e.checkVisibility() && !["SCRIPT", "NOSCRIPT", "STYLE"].includes(e.tagName)) check(e, getComputedStyle(e), n.data);
  }
  for (const e of document.querySelectorAll("body *")) {
    for (const side of ["::before", "::after"]) {
      const style = getComputedStyle(e, side);
      if (e.checkVisibility() && /["(].*[a-z]/.test(style.content)) check(e, style, side + style.content);
    }
  }
  return [String(texts), ...found];
})()`

// looksRight checks what is open at the widths of a desk and of a telephone, in light and
// in the dark.
func (w *window) looksRight(what string) {
	w.t.Helper()
	for _, width := range []int64{390, 1280} {
		w.size(width, 800)
		w.until(fmt.Sprintf(`matchMedia("(width: %dpx)").matches`, width))
		for _, wide := range eval[[]string](w, fmt.Sprintf(tooWide, width)) {
			w.t.Errorf("%s, %d wide: too wide is %s", what, width, wide)
		}
		for _, scheme := range []string{"light", "dark"} {
			w.scheme(scheme)
			w.until(fmt.Sprintf(`matchMedia("(prefers-color-scheme: %s)").matches`, scheme))
			// Colours are on their way for a moment.
			w.until(
				`document.getAnimations().filter((a) => a.transitionProperty && a.transitionProperty !== "width").length === 0`)
			found := eval[[]string](w, faint)
			for _, f := range found[1:] {
				w.t.Errorf("%s, %d wide, %s: too little contrast: %s", what, width, scheme, f)
			}
			if found[0] == "0" {
				w.t.Errorf("%s: there is no text", what)
			}
			w.picture(fmt.Sprintf("%s %d %s", what, width, scheme))
		}
	}
}

// picture writes what is to be seen into the folder FENLOCK_PICTURES, for a person to look
// at, if there is one.
func (w *window) picture(name string) {
	w.t.Helper()
	folder := os.Getenv("FENLOCK_PICTURES")
	if folder == "" {
		return
	}
	shot := call(w, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: new(true)})
	if err := os.WriteFile(filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+".png"), shot.Data,
		0o644); err != nil {
		w.t.Error(err)
	}
}

// crowded is a group in which there is everything to be seen. There are names without a place to
// break them, a queue, and two nodes that are down.
func crowded(t *testing.T) []*testserver.Server {
	servers := newGroup(t, 5, longTTL)
	long := func(c *fenlock.Config) { c.MaxTTL = longTTL } // so that the latter is out for a while
	acquire(t, newLocker(t, servers, strings.Repeat("host-with-a-long-name.", 5), long), longName)
	acquire(t, newLocker(t, servers, "web-1.example.com/4711", long), "orders/42")
	for i := range 5 {
		wait(t, newLocker(t, servers, fmt.Sprintf("waiter-%d.%s", i, strings.Repeat("x", 50)), long), "orders/42")
	}
	for i := range 5 {
		if _, err := newLocker(t, servers, fmt.Sprintf("web-%d.example.com/%d", i, 4000+i), long).AcquireShared(t.Context(),
			"catalog"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		slots, err := newLocker(t, servers, fmt.Sprintf("encoder-%d/17", i), long).Slots("encode", 5)
		must(t, err)
		if _, err := slots.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	acquire(t, newLocker(t, servers, `<b onclick="alert(1)">bold</b>`, long), `"><img src=x onerror=alert(1)>`)
	servers[3].Kill()
	servers[4].Kill()
	return servers
}

var longName = strings.Repeat("a-name-without-an-end/", 20)

// Every page fits the window and can be read, wide and narrow, light and dark.
func TestPagesLookRight(t *testing.T) {
	t.Parallel()
	empty := serve(t, newGroup(t, 3, ttl))
	servers := crowded(t)
	s := serve(t, servers, "--allow-release")
	w := newWindow(t)
	w.expect("403")
	w.expect("404")
	w.open(empty.url)
	w.shows("#pager", "Nothing is locked.")
	w.shows("#pulse", "live")
	w.looksRight("nothing is locked")
	// One server comes back now, and does not vote for a while.
	servers[4].Restart()
	w.open(s.url)
	orders := row(w, "orders/42")
	w.shows(orders+" .queue", "and 2 more")
	w.shows("#node-4", "down")
	w.shows("#node-5", "does not vote for another")
	w.shows("#pulse", "live")
	w.looksRight("all locks")
	at := eval[string](w, `location.origin`)
	for what, path := range map[string]string{
		"a lock": "/lock?name=orders/42", "a shared lock": "/lock?name=catalog", "slots": "/lock?name=encode",
		"a free lock": "/lock?name=nobody", "breaking": "/break?name=orders/42",
		"nothing is like that": "/?filter=zzz&waiting=1", "no such page": "/nothing",
	} {
		w.open(at + path)
		w.shows("main", " ")
		w.looksRight(what)
	}
	w.open(at + "/lock?name=" + longName)
	w.shows("h1", "a-name-without-an-end/")
	w.looksRight("a lock with a long name")
	stranger := newWindow(t)
	stranger.expect("403")
	stranger.open(at + "/?token=wrong")
	stranger.shows("[role=alert]", "That is not the token.")
	stranger.looksRight("signing in")

	// Now the holders are not known.
	servers[1].Kill()
	servers[2].Kill()
	w.open(at + "/")
	w.shows("#status", "No lock can be taken or extended")
	w.looksRight("no majority")
	w.open(at + "/lock?name=orders/42")
	w.shows("#facts", "Too few nodes answer")
	w.looksRight("a lock without a majority")
}

// said is what a screen reader has of an element.
type said struct{ role, name string }

// tree is what a screen reader has of the page, beside the properties of its live regions.
func (w *window) tree() (all []said, live []string) {
	w.t.Helper()
	word := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		var text string
		json.Unmarshal(v.Value, &text)
		return text
	}
	for _, n := range call(w, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored {
			continue
		}
		all = append(all, said{word(n.Role), word(n.Name)})
		for _, p := range n.Properties {
			if p.Name == "live" && word(p.Value) != "" {
				live = append(live, word(n.Role)+" "+word(n.Name)+" "+word(p.Value))
			}
		}
	}
	return all, live
}

// lacks says what the page has not, or has no name for.
func (w *window) lacks(want []said) error {
	w.t.Helper()
	all, live := w.tree()
	var errs []error
	for _, one := range want {
		if !slices.Contains(all, one) {
			names := []string{}
			for _, other := range all {
				if other.role == one.role {
					names = append(names, other.name)
				}
			}
			errs = append(errs, fmt.Errorf("there is no %s %q, but %q", one.role, one.name, names))
		}
	}
	named := []string{"button", "link", "textbox", "searchbox", "checkbox", "heading", "table", "columnheader",
		"rowheader", "log", "region"}
	for _, one := range all {
		if one.name == "" && slices.Contains(named, one.role) {
			errs = append(errs, fmt.Errorf("a %s has no name", one.role))
		}
	}
	for _, region := range []string{"log Trail polite", "status  polite"} {
		if !slices.Contains(live, region) {
			errs = append(errs, fmt.Errorf("there is no live region %q in %q", region, live))
		}
	}
	return errors.Join(errs...)
}

// A person that does not see the page has names for all that is on it.
func TestPageIsSaid(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 3, ttl)
	acquire(t, newLocker(t, servers, "web-1"), "orders/42")
	wait(t, newLocker(t, servers, "web-2"), "orders/42")
	servers[2].Kill()
	s := serve(t, servers, "--allow-release")
	w := newWindow(t)
	w.open(s.url)
	w.shows(row(w, "orders/42")+" .queue", "web-2")
	w.shows("#node-3", "down")
	has := func(want ...said) {
		t.Helper()
		w.shows("#pulse", "live")
		eventually(t, func() error { return w.lacks(want) })
	}
	has(said{"heading", "Locks"}, said{"heading", "Nodes"}, said{"heading", "Trail"}, said{"log", "Trail"},
		said{"table", "Locks"},
		said{"searchbox", "Name contains"}, said{"checkbox", "with waiters"}, said{"button", "Show"},
		said{"columnheader", "Holder"}, said{"rowheader", "orders/42"}, said{"link", "orders/42"},
		said{"link", "Break… orders/42"})
	w.until(
		`document.querySelector("#locks .votes .hidden").textContent.includes("leased on node 1, 2; no answer of node 3")`)
	// On a telephone a table is laid out as cards, which some browsers take for no table.
	w.size(390, 800)
	has(said{"table", "Locks"}, said{"columnheader", "Holder"}, said{"rowheader", "orders/42"}, said{"link", "orders/42"})
	w.open(eval[string](w, `location.origin`) + "/lock?name=orders/42")
	w.shows("#facts", "Held by web-1")
	has(said{"heading", "orders/42"}, said{"heading", "What the nodes say"}, said{"heading", "Waiters, in order"},
		said{"link", "Break this lock…"})
}
