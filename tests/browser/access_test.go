package browser_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where others can reach the page, it wants its token, typed in or as a part of the address; a
// client that does not know it sees nothing.
func TestSignIn(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 1, ttl)
	acquire(t, newLocker(t, servers, "web-1"), "orders/42")
	const token = "correct horse & battery"
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	s := serve(t, servers, "--listen", "0.0.0.0:0", "--token-file", file)
	page := "http://127.0.0.1:" + s.at.Port() + "/"

	w := newWindow(t)
	w.expect("403")
	w.open(page + "lock?name=orders/42")
	w.shows("h1", "This page needs a token")
	if text := eval[string](w, `document.documentElement.outerHTML`); strings.Contains(text, "web-1") {
		t.Errorf("who has no token sees %s", text)
	}
	w.until(`document.activeElement.id === "token" && document.activeElement.type === "password"`)
	w.press("a wrong one", "\r")
	w.shows("[role=alert]", "That is not the token.")
	w.until(`document.activeElement.id === "token"`)
	w.press(token, "\r")
	w.shows("#locks", "orders/42", "web-1")
	w.shows("#pulse", "live")
	if said := eval[string](w, `location.href + document.cookie + document.referrer`); strings.Contains(said, "horse") ||
		strings.Contains(said, "fenlock-ui") {
		t.Errorf("scripts and the history see %s", said)
	}

	other := newWindow(t)
	other.expect("403")
	other.open(page)
	other.shows("h1", "This page needs a token")
	other.open(page + "?token=" + url.QueryEscape(token))
	other.shows("#locks", "orders/42", "web-1")
	if at := eval[string](other, `location.href`); at != page {
		t.Errorf("the address is %s", at)
	}
}

// A proxy has the page below a path: it is signed in to, live, and breaks locks there.
func TestBelowAPath(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 3, ttl)
	acquire(t, newLocker(t, servers, "web-1"), "orders/42")
	s := serve(t, servers, "--allow-release")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.at.Host})
	proxy.FlushInterval = -1
	mux := http.NewServeMux()
	mux.Handle("/tools/locks/", http.StripPrefix("/tools/locks", proxy))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close) // after the window, whose stream it waits for
	w := newWindow(t)
	w.open(server.URL + "/tools/locks/?" + s.at.RawQuery)
	orders := row(w, "orders/42")
	w.shows("#pulse", "live")
	w.mark()
	if at := eval[string](w, `location.pathname + location.search`); at != "/tools/locks/" {
		t.Errorf("the address is %s", at)
	}
	wait(t, newLocker(t, servers, "web-2"), "orders/42")
	w.shows(orders+" .queue", "web-2")
	w.marked()
	w.tab("orders/42")
	w.press("\r")
	w.shows("#facts", "Held by web-1")
	w.shows("#pulse", "live")
	w.tab("Break this lock…")
	w.press("\r")
	w.shows("h1", "Break orders/42?")
	w.tab("Break orders/42")
	w.press("\r")
	w.shows("h1", "orders/42 is broken")
	w.tab("See its holder now")
	w.press("\r")
	w.shows("#facts", "Held by web-2")
	if at := eval[string](w, `location.pathname`); at != "/tools/locks/lock" {
		t.Errorf("the address is %s", at)
	}
}

// What identifies a holder or a waiter, and is enough to release the lock or take the place, never
// reaches a browser.
func TestNoIdentityInTheBrowser(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 3, ttl)
	acquire(t, newLocker(t, servers, "web-1"), "orders/42")
	wait(t, newLocker(t, servers, "web-2"), "orders/42")
	s := serve(t, servers)
	w := newWindow(t)
	w.open(s.url)
	orders := row(w, "orders/42")
	w.shows(orders+" .queue", "web-2")
	w.shows(orders, "3 of 3") // the first server has it too
	acquire(t, newLocker(t, servers, "web-3"), "another")
	w.shows(row(w, "another"), "web-3", "3 of 3")
	secrets := []string{
		servers[0].Do("GET", "fenlock:orders/42")[:32], servers[0].Do("GET", "fenlock:another")[:32],
		strings.Trim(servers[0].Do("ZRANGE", "fenlock-line:fenlock:orders/42", "0", "-1"), "[]")[:32],
	}
	sent := eval[string](w, `document.documentElement.outerHTML`) + w.received()
	w.open(eval[string](w, `location.origin`) + "/lock?name=orders/42")
	w.shows("#pulse", "live")
	w.until(`document.querySelector("#queue li") !== null`)
	sent += eval[string](w, `document.documentElement.outerHTML`) + w.received()
	if !strings.Contains(w.received(), "web-2") {
		t.Error("what is sent to the page is not known")
	}
	for _, secret := range secrets {
		if strings.Trim(secret, "0123456789abcdef") != "" {
			t.Fatalf("%q is no identity", secret)
		}
		// Half of one is half too much.
		if strings.Contains(sent, secret[:16]) || strings.Contains(sent, secret[16:]) {
			t.Errorf("the browser was told %s", secret)
		}
	}
}
