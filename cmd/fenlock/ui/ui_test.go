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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func locker(t *testing.T) *fenlock.Locker {
	t.Helper()
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("a"), memnode.New("b"), memnode.New("c")},
		Label: "<b>web-1</b>"})
	must(t, err)
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

// A mounted page is that of fenlock ui, with the program's token and names.
func TestMounted(t *testing.T) {
	l := locker(t)
	_, err := l.Acquire(t.Context(), "<i>orders</i>")
	must(t, err)
	h, err := ui.New(ui.Config{Nodes: l.Nodes(), Token: token, AllowRelease: true, Hosts: []string{"ops.example.com"},
		History: time.Hour})
	must(t, err)
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
		must(t, err)
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
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp, string(text)
	}
	name := url.QueryEscape("<i>orders</i>")
	if resp, text := ask("GET", "/locks/", ""); resp.StatusCode != 403 || strings.Contains(text, "web-1") {
		t.Errorf("without the token: %d", resp.StatusCode)
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
	_, text := ask("GET", "/locks/break?name="+name, "", "Cookie", cookie)
	_, after, _ := strings.Cut(text, `name="seen" value="`)
	seen, _, _ := strings.Cut(after, `"`)
	form := url.Values{"name": {"<i>orders</i>"}, "seen": {seen}}.Encode()
	if resp, _ := ask("POST", "/locks/break", form, "Cookie", cookie, "Sec-Fetch-Site",
		"cross-site"); resp.StatusCode != 403 {
		t.Errorf("from another site: %d", resp.StatusCode)
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
	must(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		h.ServeHTTP(wrapped{w}, r)
	}))
	defer server.Close()
	resp, err := http.Get(server.URL + "/events")
	must(t, err)
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
