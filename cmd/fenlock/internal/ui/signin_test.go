package ui

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
)

const testToken = "open sesame, please"

// signedIn returns a browser that knows the token.
func signedIn(t *testing.T, c Config) *asking {
	t.Helper()
	c.Token = testToken
	a := browse(t, c)
	r := a.get("/?" + url.Values{"token": {testToken}}.Encode())
	if r.status != 303 {
		t.Fatalf("status %d\n%s", r.status, r.body)
	}
	cookie, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	a.header.Set("Cookie", cookie)
	return a
}

// Without the token there is nothing to be had but the files of the page.
func TestNoToken(t *testing.T) {
	onPage(t, 3, Config{Token: testToken, AllowRelease: true}, func(t *testing.T, f *fake, a *asking) {
		f.hold("secret-name", "secret-label", 1)
		form := url.Values{"name": {"secret-name"}, "seen": {fingerprint(f.locks["secret-name"])}}
		for _, r := range []answer{
			a.get("/"), a.get("/lock?name=secret-name"), a.get("/events"), a.get("/break?name=secret-name"), a.get("/none"),
			a.get("/?token="), a.get("/?token=wrong"),
			a.get("/?token=" + url.QueryEscape(testToken) + "x"),
			a.get("/?token=" + url.QueryEscape(testToken[:len(testToken)-1])), a.get("/events?token=wrong"),
			a.do("POST", "/break", form), a.do("POST", "/signin", url.Values{"token": {"wrong"}}), a.do("POST", "/signin", nil),
			a.do("HEAD", "/?token="+url.QueryEscape(testToken), nil),
			a.get("/", "Cookie", "fenlock-ui-5625="), a.get("/", "Cookie", "fenlock-ui-5625="+url.QueryEscape(testToken)),
			a.get("/", "Cookie", "fenlock-ui-5625=x; fenlock-ui-5625=y"),
			a.get("/", "Authorization", "Bearer "+testToken), a.do("POST", "/?token="+url.QueryEscape(testToken), form),
		} {
			r.want(t, http.StatusForbidden, "not", "secret")
			if r.header.Get("Set-Cookie") != "" {
				t.Errorf("a cookie: %s", r.header.Get("Set-Cookie"))
			}
		}
		if len(f.broken) > 0 || f.looks > 0 {
			t.Errorf("%d looks, broke %q", f.looks, f.broken)
		}
		a.get("/assets/style.css").want(t, 200)
	})
}

func TestToken(t *testing.T) {
	onPage(t, 3, Config{Token: testToken}, func(t *testing.T, f *fake, a *asking) {
		f.hold("a", "x", 1)
		r := a.get("/lock?name=a&token=" + url.QueryEscape(testToken))
		cookie := r.header.Get("Set-Cookie")
		if r.status != 303 || r.header.Get("Location") != "./lock?name=a" || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%d, %v", r.status, r.header)
		}
		for _, part := range []string{"fenlock-ui-5625=", "; HttpOnly", "; SameSite=Strict"} {
			if !strings.Contains(cookie, part) {
				t.Errorf("%q is not in %s", part, cookie)
			}
		}
		if strings.Contains(cookie, testToken) || strings.Contains(cookie, url.QueryEscape(testToken)) ||
			strings.Contains(cookie, "Max-Age") || strings.Contains(cookie, "Expires") || strings.Contains(cookie, "Path") {
			t.Errorf("the cookie is %s", cookie)
		}
		value, _, _ := strings.Cut(cookie, ";")
		a.get("/lock?name=a", "Cookie", "other=1; "+value).want(t, 200, "Held by x")
		// A bookmark with the token in it, or with an old one.
		for _, query := range []string{"token=" + url.QueryEscape(testToken), "token=old"} {
			if r := a.get("/?page=1&"+query, "Cookie", value); r.status != 303 || r.header.Get("Location") != "./?page=1" {
				t.Errorf("%d to %q", r.status, r.header.Get("Location"))
			}
		}
		// Never to another site.
		for _, path := range []string{"//evil.example/?token=", "/%2Fevil.example/?token=", "///?token=",
			"/\\evil.example?token="} {
			r := a.get(path + url.QueryEscape(testToken))
			to, err := url.Parse(r.header.Get("Location"))
			if err != nil || to.Host != "" || strings.HasPrefix(r.header.Get("Location"), "//") ||
				strings.Contains(r.header.Get("Location"), `\`) {
				t.Errorf("%s leads to %q", path, r.header.Get("Location"))
			}
		}
		r = a.do("POST", "/signin", url.Values{"token": {testToken}})
		if r.status != 303 || r.header.Get("Location") != "./" || !strings.Contains(r.header.Get("Set-Cookie"), "HttpOnly") {
			t.Errorf("typed: %d, %v", r.status, r.header)
		}
		if r := a.do("POST", "/signin", url.Values{"token": {"x"}}, "Cookie", value); r.status != 303 ||
			r.header.Get("Location") != "./" {
			t.Errorf("typed twice: %d, %v", r.status, r.header)
		}
		a.do("POST", "/signin", url.Values{"token": {testToken}}, "Sec-Fetch-Site", "cross-site").want(t, 403, "another site")
		// From a link on another site the browser sends no cookie, until the page goes on by itself.
		a.get("/", "Sec-Fetch-Site", "cross-site").want(t, 403, `content="0;url=./"`)
		a.get("/", "Sec-Fetch-Site", "same-origin").want(t, 403, "not", `http-equiv="refresh"`)
	})
}

// Another program's cookie is none.
func TestCookieEndsWithTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := signedIn(t, Config{Source: newFake(1)})
		first.get("/").want(t, 200)
		second := browse(t, Config{Source: newFake(1), Token: testToken})
		second.get("/", "Cookie", first.header.Get("Cookie")).want(t, 403)
	})
}
