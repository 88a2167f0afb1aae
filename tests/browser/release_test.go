package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
)

// A stuck lock is broken with the keyboard alone; its holder hears of it, and the next
// one has it.
func TestBreakALock(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 3, ttl)
	lock := acquire(t, newLocker(t, servers, "stuck"), "orders/42")
	wait(t, newLocker(t, servers, "next"), "orders/42")
	s := serve(t, servers, "--allow-release")
	w := newWindow(t)
	w.open(s.url)
	orders := row(w, "orders/42")
	w.shows(orders, "3 of 3", "next") // on a slow machine a vote may come later
	w.tab("Break… orders/42")
	w.press("\r")
	w.shows("h1", "Break orders/42?")
	w.shows("main", "Held by", "stuck", "Since", "Token", lock.Token().String(), "Votes", "3 of 3", "Waiting", "next",
		"stuck loses the lock for good", "only a resource that checks tokens is safe", "next is the next in the queue")
	w.tab("Break orders/42")
	w.press("\r")
	w.shows("h1", "orders/42 is broken")
	w.shows("main", "stuck had it", "Every token from now on is larger")
	select {
	case <-lock.Context().Done():
		if err := context.Cause(lock.Context()); !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("the holder is told %v", err)
		}
	case <-time.After(bound):
		t.Error("the holder is not told")
	}
	w.tab("See its holder now")
	w.press("\r")
	w.shows("#facts", "Held by next")
	w.shows("#trail", "broken on this page; stuck had it")
	if said := eval[string](w, `location.href + document.cookie`); strings.Contains(said, "token") ||
		strings.Contains(said, "fenlock-ui") {
		t.Errorf("the page has its secrets in %s", said)
	}
}

// Another site that a person who may break locks has open breaks none. Nor does a site that has a
// name of its own lead here.
func TestOtherSitesBreakNothing(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 3, ttl)
	lock := acquire(t, newLocker(t, servers, "busy"), "orders/42")
	s := serve(t, servers, "--allow-release")
	w := newWindow(t)
	w.expect("403")
	w.open(s.url)
	row(w, "orders/42")
	// What the page would send: the attacker may have guessed it.
	w.open("http://" + s.at.Host + "/break?name=orders/42")
	w.shows("h1", "Break orders/42?")
	seen := eval[string](w, `document.querySelector("[name=seen]").value`)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="http://%s/break"><input name="name" value="orders/42"><input name="seen" value="%s"></form>`, s.at.Host, seen)
	}))
	defer site.Close()
	w.open(site.URL)
	eval[bool](w, `document.forms[0].submit() || true`)
	w.shows("main", "That came from another site", "Nothing was done.")
	w.expect("Failed to load resource")
	w.open("http://elsewhere.example:" + s.at.Port() + "/?" + s.at.RawQuery)
	w.shows("main", "This is not called like that")
	if text := eval[string](w, `document.documentElement.textContent`); strings.Contains(text, "orders/42") ||
		strings.Contains(text, "busy") {
		t.Errorf("a site of another name sees %s", text)
	}
	release(t, lock)
}
