package ui_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/ui"
	"github.com/fenlock/fenlock/node/memnode"
)

const token = "0123456789abcdef"

func locker(t *testing.T) *fenlock.Locker {
	t.Helper()
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("a"), memnode.New("b"), memnode.New("c")},
		Label: "<b>web-1</b>"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A page has a token, or a program that says that it protects it, and never neither.
func TestConfig(t *testing.T) {
	nodes := locker(t).Nodes()
	for name, c := range map[string]ui.Config{
		"nothing":      {Nodes: nodes},
		"to break":     {Nodes: nodes, AllowRelease: true},
		"short token":  {Nodes: nodes, Token: token[1:]},
		"both":         {Nodes: nodes, Token: token, Guarded: true},
		"no nodes":     {Token: token},
		"past history": {Nodes: nodes, Token: token, History: -time.Second},
	} {
		if h, err := ui.New(c); h != nil || !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%s: %v, %v", name, h, err)
		}
	}
}

// A mounted page is protected as that of fenlock ui: by its token, its host, and against other
// sites.
func TestMounted(t *testing.T) {
	l := locker(t)
	lock, err := l.Acquire(t.Context(), "<i>orders</i>")
	if err != nil {
		t.Fatal(err)
	}
	h, err := ui.New(ui.Config{Nodes: l.Nodes(), Token: token, AllowRelease: true, Hosts: []string{"ops.example.com"},
		History: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", h))
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	defer h.Close()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ask := func(method, path, body string, headers ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body == "" {
			r.Body = nil
		} else {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		for i := 0; i < len(headers); i += 2 {
			if headers[i] == "Host" {
				r.Host = headers[i+1]
			}
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	name := url.QueryEscape("<i>orders</i>")
	for _, path := range []string{"/locks/", "/locks/lock?name=" + name, "/locks/events", "/locks/break?name=" + name} {
		if resp, text := ask("GET", path, ""); resp.StatusCode != 403 || strings.Contains(text, "web-1") {
			t.Errorf("%s without the token: %d", path, resp.StatusCode)
		}
	}
	if resp, text := ask("GET", "/locks/metrics", ""); resp.StatusCode != 401 || strings.Contains(text, "fenlock_") {
		t.Errorf("metrics without the token: %d", resp.StatusCode)
	}
	resp, _ := ask("GET", "/locks/?token="+token, "")
	cookie := resp.Header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "Secure", "SameSite=Strict"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("the cookie is %q", cookie)
		}
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	for host, want := range map[string]int{"ops.example.com": 200, "127.0.0.1": 200, "rebound.example": 403} {
		if resp, text := ask("GET", "/locks/", "", "Cookie", cookie, "Host", host); resp.StatusCode != want ||
			strings.Contains(text, "&lt;i&gt;orders") != (want == 200) {
			t.Errorf("asked for as %s: %d", host, resp.StatusCode)
		}
	}
	resp, text := ask("GET", "/locks/break?name="+name, "", "Cookie", cookie)
	if resp.Header.Get("Content-Security-Policy") == "" || resp.Header.Get("X-Frame-Options") != "DENY" ||
		strings.Contains(text, "<i>") || strings.Contains(text, "<b>web") {
		t.Errorf("%v\n%s", resp.Header, text)
	}
	_, after, _ := strings.Cut(text, `name="seen" value="`)
	seen, _, _ := strings.Cut(after, `"`)
	form := url.Values{"name": {"<i>orders</i>"}, "seen": {seen}}.Encode()
	for _, from := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://elsewhere.example"}} {
		if resp, _ := ask("POST", "/locks/break", form, append(from, "Cookie", cookie)...); resp.StatusCode != 403 {
			t.Errorf("from %v: %d", from, resp.StatusCode)
		}
	}
	if lock.Context().Err() != nil {
		t.Fatal("the lock was broken by another site")
	}
	if resp, text := ask("POST", "/locks/break", form, "Cookie", cookie, "Sec-Fetch-Site",
		"same-origin"); resp.StatusCode != 200 || !strings.Contains(text, "is broken") {
		t.Errorf("%d\n%s", resp.StatusCode, text)
	}
}

// The page follows the changes through what wraps a ResponseWriter, and ends with the handler.
func TestStreamOfAMountedPage(t *testing.T) {
	l := locker(t)
	h, err := ui.New(ui.Config{Nodes: l.Nodes(), Guarded: true})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		h.ServeHTTP(wrapped{w}, r)
	}))
	defer server.Close()
	resp, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := l.Acquire(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && !strings.Contains(lines.Text(), "lock?name=orders") {
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	h.Close()
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
}

// wrapped is what a program's log makes of a ResponseWriter.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }
