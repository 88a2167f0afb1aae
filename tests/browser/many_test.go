package browser_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// The name of a lock and the address of its page are copied by the keyboard. That works also where
// the browser has no clipboard for a page without TLS.
func TestCopy(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 3, ttl)
	acquire(t, newLocker(t, servers, "web-1"), `<i>orders</i> "42"`)
	s := serve(t, servers, "--host", "elsewhere.example")
	for _, host := range []string{"127.0.0.1", "elsewhere.example"} {
		w := newWindow(t)
		w.open("http://" + host + ":" + s.at.Port() + "/")
		w.shows("#pulse", "live")
		row(w, `<i>orders</i> "42"`)
		// What is copied is what is told to those who listen.
		eval[bool](w, `(() => {
		  window.copied = [];
		  document.addEventListener("copy", () => copied.push(String(getSelection()) || document.activeElement.value));
		  if (navigator.clipboard) navigator.clipboard.writeText = async (text) => { copied.push(text); };
		  return true;
		})()`)
		w.tab(`Copy <i>orders</i> "42"`)
		w.press("\r")
		w.until(`document.querySelector("#locks .copy.done") !== null && copied[0] === '<i>orders</i> "42"'`)
		if got := w.focused(); got != `Copy <i>orders</i> "42"` {
			t.Errorf("the focus is at %q", got)
		}
		w.open(eval[string](w, `document.querySelector("#locks th a").href`))
		w.shows("#pulse", "live")
		w.tab("Copy the link")
		w.press("\r")
		w.until(`document.querySelector("[data-copy-link].done") !== null`)
	}
}

// A thousand locks: a hundred of them are in the page, what has not changed stays, and who
// types can type.
func TestManyLocks(t *testing.T) {
	t.Parallel()
	const many = 1000
	servers := newGroup(t, 3, longTTL)
	l := newLocker(t, servers, "many", with(longTTL))
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	var running sync.WaitGroup
	for first := range 20 {
		running.Go(func() {
			for i := first; i < many; i += 20 {
				if _, err := l.Acquire(ctx, fmt.Sprintf("item/%04d", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()

	s := serve(t, servers)
	w := newWindow(t)
	w.open(s.url)
	w.shows("#pager", "Page 1 of 10, 1,000 locks", "Next")
	w.shows("#pulse", "live")
	w.shows("#status", "1,000 locks are held")
	eval[bool](w, `document.querySelectorAll("#locks tr").forEach((r) => { r.kept = true; }) || true`)
	if n := eval[int](w, `document.querySelectorAll("#locks tr").length`); n != 100 {
		t.Errorf("%d rows", n)
	}
	// While the news come, a person types what to look for.
	w.tab("filter")
	w.press("item/09")
	if _, err := l.Acquire(ctx, "a new one"); err != nil {
		t.Fatal(err)
	}
	w.shows(row(w, "a new one"), "many")
	w.press("9")
	w.until(`document.activeElement.id === "filter" && document.activeElement.value === "item/099"`)
	if n := eval[int](w, `[...document.querySelectorAll("#locks tr")].filter((r) => r.kept).length`); n != 99 {
		t.Errorf("%d rows of 99 are still the same", n)
	}
	if n := eval[int](w, `document.querySelectorAll("*").length`); n > 5000 {
		t.Errorf("the page has %d elements", n)
	}
	w.press("\r")
	w.shows("#pager", "10 locks")
	w.shows("#locks", "item/0990", "item/0999")
}
