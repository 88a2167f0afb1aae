package ui

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/url"
	"slices"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/listen"
)

// signin lets in browsers that know the token. A person has it from a URL or types it in. From
// then on the browser has a cookie, which is worth nothing to another program and ends with
// this program.
type signin struct {
	token  string // "" if every request is let in
	cookie string // its value
	next   http.Handler
}

func newSignin(token string, next http.Handler) *signin {
	return &signin{token: token, cookie: rand.Text(), next: next}
}

// cookieName has the port: a browser sends the cookies of one machine to all of its ports.
func cookieName(r *http.Request) string {
	port := ""
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		_, port, _ = net.SplitHostPort(at.String())
	}
	return "fenlock-ui-" + port
}

func (s *signin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.token == "" || s.known(r):
		if r.Method == http.MethodGet && r.URL.Query().Has("token") {
			forget(w, r) // a bookmark of before
			return
		}
		if r.URL.Path == "/signin" {
			seeOther(w, "./")
			return
		}
		s.next.ServeHTTP(w, r)
	case r.URL.Path == "/signin" && r.Method == http.MethodPost:
		s.typed(w, r)
	case r.Method == http.MethodGet && r.URL.Query().Has("token"):
		if !listen.SameToken(r.URL.Query().Get("token"), s.token) {
			s.ask(w, r, "That is not the token. fenlock ui makes a new token each time it starts, unless it has --token-file.")
			return
		}
		s.welcome(w, r)
		forget(w, r)
	default:
		s.ask(w, r, "")
	}
}

// known reports whether the browser has the cookie.
func (s *signin) known(r *http.Request) bool {
	return slices.ContainsFunc(r.CookiesNamed(cookieName(r)),
		func(c *http.Cookie) bool { return listen.SameToken(c.Value, s.cookie) })
}

// welcome gives the browser the cookie. It has no path, so that the browser takes the folder of
// the page, wherever a program or a proxy has put it.
func (s *signin) welcome(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: s.cookie, HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode})
}

// seeOther has the browser go to another page. http.Redirect would make the address absolute, and
// wrong below the path of a proxy.
func seeOther(w http.ResponseWriter, to string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// forget has the browser ask again without the token, so that it is in no history.
func forget(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	v.Del("token")
	to := url.URL{Path: r.URL.Path, RawQuery: v.Encode()}
	seeOther(w, "."+to.RequestURI())
}

func (s *signin) typed(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || !listen.SameToken(r.PostForm.Get("token"), s.token) {
		s.ask(w, r, "That is not the token.")
		return
	}
	s.welcome(w, r)
	seeOther(w, "./")
}

// ask asks for the token.
func (s *signin) ask(w http.ResponseWriter, r *http.Request, wrong string) {
	if r.URL.Path == "/events" {
		http.Error(w, "the token is wanted", http.StatusForbidden)
		return
	}
	p := page{Title: "fenlock", View: struct{ Wrong string }{wrong}}
	if r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// From a link on another site, the browser sends no cookie. It does where the page
		// itself goes.
		p.Go = "./"
	}
	show(w, http.StatusForbidden, "signin.html", p)
}
