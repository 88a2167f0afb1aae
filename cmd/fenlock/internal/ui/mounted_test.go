package ui

import (
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var links = regexp.MustCompile(`(?:href|src|action|data-stream)="([^"#]+)"|url=([^"]+)"`)

// The page works below any path, also behind a proxy that has another path. Neither its links
// nor its redirects lead outside.
func TestBelowAPath(t *testing.T) {
	f := newFake(3)
	f.hold("orders/42", "host-a", 7, "w1")
	f.share("gpu", 2, "job")
	f.hold("gpu#0", "job", 8)
	for i := range perPage {
		f.hold(strings.Repeat("z", i+1), "x", 1)
	}
	for mount, seen := range map[string]string{"": "/", "/admin/locks": "/admin/locks/", "/inside": "/tools/fenlock/"} {
		h := NewHandler(Config{Source: f, Token: testToken, AllowRelease: true})
		mux := http.NewServeMux()
		mux.Handle(mount+"/", http.StripPrefix(mount, h))
		outside := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			below, is := strings.CutPrefix(r.URL.Path, seen)
			if !is {
				outside++
				http.NotFound(w, r)
				return
			}
			r.URL.Path, r.RequestURI = mount+"/"+below, mount+"/"+below // as a proxy does
			mux.ServeHTTP(w, r)
		}))
		jar, err := cookiejar.New(nil)
		must(t, err)
		client := &http.Client{Jar: jar}
		get := func(address string) answer {
			t.Helper()
			resp, err := client.Get(address)
			return read(t, resp, err)
		}
		at := server.URL + seen
		get(at).want(t, 403, "needs a token")
		resp, err := client.PostForm(at+"signin", url.Values{"token": {testToken}})
		read(t, resp, err).want(t, 200, "orders/42", "gpu")
		if jar.Cookies(mustParse(t, server.URL+"/elsewhere/")) != nil && seen != "/" {
			t.Errorf("%s: the cookie is sent to other pages", seen)
		}
		// From page to page, as far as links lead.
		visited, todo := map[string]bool{}, []string{at}
		for len(todo) > 0 {
			page := todo[0]
			if todo = todo[1:]; visited[page] {
				continue
			}
			visited[page] = true
			if strings.Contains(page, "/events") || strings.Contains(page, "zz") || page == at+"break" {
				continue // a stream has no end, one lock is like another, and a form is sent
			}
			r := get(page)
			if r.status != 200 {
				t.Errorf("%s: %s: %d", seen, page, r.status)
			}
			if !strings.Contains(r.header.Get("Content-Type"), "html") {
				continue
			}
			for _, m := range links.FindAllStringSubmatch(r.body, -1) {
				to := mustParse(t, page).ResolveReference(mustParse(t, strings.ReplaceAll(m[1]+m[2], "&amp;", "&")))
				if !strings.HasPrefix(to.String(), at) {
					t.Errorf("%s: %s leads to %s", seen, page, to)
				}
				todo = append(todo, to.String())
			}
		}
		for _, want := range []string{"", "lock?name=orders%2F42", "lock?name=gpu%230", "break?name=orders%2F42", "?page=2",
			"events", "assets/style.css", "assets/copy.js", "?order=age"} {
			if !visited[at+want] && !visited[at+"./"+want] {
				t.Errorf("%s: no link led to %q, but to %d others", seen, want, len(visited))
			}
		}
		// With the token in the address, from a bookmark.
		get(at+"lock?name=orders%2F42&token="+url.QueryEscape(testToken)).want(t, 200, "Held by host-a")
		// Breaking, by what the page sends.
		form := get(at+"break?name=orders%2F42").form(t, "orders/42")
		resp, err = client.PostForm(at+"break", form)
		read(t, resp, err).want(t, 200, "orders/42 is broken")
		f.hold("orders/42", "host-a", 9, "w1")
		if outside > 0 {
			t.Errorf("%s: %d requests went elsewhere", seen, outside)
		}
		get(at+"lock/name").want(t, 404, "no such page")
		server.Close()
		h.Close()
	}
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u
}

func read(t *testing.T, resp *http.Response, err error) answer {
	t.Helper()
	must(t, err)
	defer resp.Body.Close()
	var b strings.Builder
	must(t, resp.Write(&b))
	return answer{resp.StatusCode, resp.Header, b.String()}
}

// A path without its slash leads to the page, and one that is no page's to nothing.
func TestPathsOfNoPage(t *testing.T) {
	h := NewHandler(Config{Source: newFake(1), Token: testToken})
	defer h.Close()
	for path, want := range map[string]int{
		"/locks": 303, "/locks/": 403, "/locks/lock": 403, "/locks/a/b": 404, "/locks//": 404, "/locks//evil.example": 404,
		"/locks/..": 404, "/locks/.": 404, "/locks/lock/": 404,
		`/locks/\evil.example`: 404, "/locks/assets/": 404, "/locks/assets/none": 404, "/locks/assets/a/b": 404,
		"/locks/assets/style.css": 200, "/locks/%2fevil.example": 404,
	} {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.URL = &url.URL{Path: path}
		if unescaped, err := url.PathUnescape(path); err == nil {
			r.URL.Path = unescaped
		}
		r.RequestURI = path + "?token=wrong"
		w := httptest.NewRecorder()
		http.StripPrefix("/locks", h).ServeHTTP(w, r)
		if to := w.Header().Get("Location"); w.Code != want || want == 303 && to != "./locks/?token=wrong" ||
			want != 303 && to != "" {
			t.Errorf("%s: %d to %q; want %d", path, w.Code, to, want)
		}
	}
}
