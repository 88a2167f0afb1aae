package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// window is one of a person who has no other: its cookies are its own. What its console
// complains about fails the test, the violations of the page's policy too.
type window struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	expected []string // parts of what may be complained about
	problems []string
	news     strings.Builder // what the server has sent while the page was open
}

// bound is for a test that hangs, and no claim about speed.
const bound = time.Minute

// newWindow is called after all that the window will look at was started: it is closed
// before that ends, about which it would complain.
func newWindow(t *testing.T) *window {
	t.Helper()
	w := &window{t: t}
	var cancel context.CancelFunc
	w.ctx, cancel = chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(w.hear))
	// The first action opens the window, which would end with a bound of its own.
	must(t, chromedp.Do(w.ctx))
	t.Cleanup(func() {
		cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range w.problems {
			t.Errorf("the browser complains: %s", p)
		}
	})
	call(w, log.Enable, cdp.Empty{})
	call(w, network.Enable, network.EnableParams{})
	call(w, runtime.Enable, cdp.Empty{})
	// Several windows are open at a time, and each is looked at.
	call(w, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	w.size(1280, 800)
	return w
}

func (w *window) hear(event any) {
	switch e := event.(type) {
	case *log.EventEntryAdded:
		w.complain(string(e.Entry.Level), e.Entry.Text+" "+e.Entry.URL)
	case *runtime.EventConsoleAPICalled:
		for _, o := range e.Args {
			w.complain(string(e.Type), "console: "+describe(o))
		}
	case *runtime.EventExceptionThrown:
		w.complain("error", fmt.Sprint(e.ExceptionDetails.Text, " ", describe(e.ExceptionDetails.Exception)))
	case *page.EventJavascriptDialogOpening:
		w.complain("error", "a dialog opens: "+e.Message)
	case *network.EventEventSourceMessageReceived:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.news.WriteString(e.Data + "\n")
	}
}

func describe(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description + string(o.Value)
}

func (w *window) complain(level, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if level != "error" && level != "warning" && level != "assert" {
		return
	}
	for _, e := range w.expected {
		if strings.Contains(text, e) {
			return
		}
	}
	w.problems = append(w.problems, level+": "+text)
}

// expect has complaints with this text in them count for nothing.
func (w *window) expect(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expected = append(w.expected, text)
}

// received is all that was sent while the page was open.
func (w *window) received() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.news.String()
}

func (w *window) do(action chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, bound)
	defer cancel()
	must(w.t, chromedp.Do(ctx, action))
}

// call has the browser do something by its protocol.
func call[P, R any](w *window, command cdp.Command[P, R], params P) R {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, bound)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	must(w.t, err)
	return result
}

// try runs a script and returns what it returns.
func try[T any](w *window, script string) (T, error) {
	ctx, cancel := context.WithTimeout(w.ctx, bound)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](script))
}

// eval is try for a script that does not fail.
func eval[T any](w *window, script string) T {
	w.t.Helper()
	value, err := try[T](w, script)
	if err != nil {
		w.t.Fatalf("%v: %s", err, script)
	}
	return value
}

// open goes to an address.
func (w *window) open(address string) {
	w.t.Helper()
	w.do(chromedp.Navigate(address))
}

// size makes the window as large as a screen, of a phone if it is narrow.
func (w *window) size(width, height int64) {
	w.t.Helper()
	call(w, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
	})
}

// scheme has the person prefer "light" or "dark".
func (w *window) scheme(scheme string) {
	w.t.Helper()
	call(w, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// text is what an element shows, "" if it is not there or not seen.
func (w *window) text(selector string) string {
	w.t.Helper()
	return eval[string](w, fmt.Sprintf(shownText, quote(selector)))
}

const shownText = `(() => {
  const e = document.querySelector(%s);
  if (!e || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return "";
  const box = e.getBoundingClientRect();
  return box.width > 1 && box.height > 1 ? e.innerText.replace(/\s+/g, " ").trim() : "";
})()`

// quote is a text as scripts have it.
func quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// shows waits until an element shows all of these texts, in this order.
func (w *window) shows(selector string, texts ...string) {
	w.t.Helper()
	eventually(w.t, func() error {
		got, err := try[string](w, fmt.Sprintf(shownText, quote(selector)))
		if err != nil {
			return err
		}
		rest := got
		for _, text := range texts {
			_, after, found := strings.Cut(rest, text)
			if !found {
				return fmt.Errorf("%s shows %q, without %q", selector, got, text)
			}
			rest = after
		}
		if got == "" {
			return fmt.Errorf("%s is not to be seen", selector)
		}
		return nil
	})
}

// until waits until a script returns true.
func (w *window) until(script string) {
	w.t.Helper()
	eventually(w.t, func() error {
		ok, err := try[bool](w, script)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("not so: %s", script)
		}
		return nil
	})
}

// mark is kept by the page until it is loaded again.
func (w *window) mark() {
	w.t.Helper()
	eval[bool](w, `window.mark = true`)
}

// marked fails the test if the page was loaded again.
func (w *window) marked() {
	w.t.Helper()
	if !eval[bool](w, `window.mark === true`) {
		w.t.Error("the page was loaded again")
	}
}

// press presses keys, one after the other.
func (w *window) press(keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		w.do(chromedp.KeyEvent(key))
	}
}

// focused is the name of what has the focus, as a screen reader says it.
func (w *window) focused() string {
	w.t.Helper()
	return eval[string](w, `(document.activeElement.textContent || document.activeElement.name || "").replace(/\s+/g, " ").trim()`)
}

// tab goes from one control to the next until the one with this name has the focus.
func (w *window) tab(name string) {
	w.t.Helper()
	var passed []string
	for range 60 {
		w.press("\t")
		got := w.focused()
		if got == name {
			return
		}
		passed = append(passed, got)
	}
	w.t.Fatalf("the Tab key does not lead to %q, but to %q", name, passed)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually tries again until there is no error.
func eventually(t testing.TB, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("not within %v: %v", bound, err)
}
