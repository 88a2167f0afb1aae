package ui

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"sync"
)

//go:embed assets
var assets embed.FS

// templates are parsed when the first page is made: every other command would wait for it.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(assets, "assets/*.html"))
})

// html is a template's text. The templates and what they show are fixed, so that only a
// mistake in them can fail.
func html(name string, view any) string {
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, name, view); err != nil {
		panic(fmt.Sprint("template ", name, ": ", err))
	}
	return b.String()
}

// page is what every page has.
type page struct {
	Title string
	Live  *live // nil for one that does not change
	View  any
	Go    string // where the browser is to go at once, "" for nowhere
}

// live is what the script needs to know.
type live struct {
	Stream   string // where the news come from
	Instance string // of the program: another one's news are not for this page
	Last     uint64 // the number of the newest event on the page
	Now      int64  // Unix time in milliseconds
	Again    string // where the page is, for browsers without the script
	Trail    []trailRow
}

// show answers with a page.
func show(w http.ResponseWriter, status int, template string, p page) {
	text := html(template, p)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write([]byte(text))
}

// message is a page with something to say, and a way on.
type message struct {
	Class string // good, warn or bad
	Head  string
	Text  []string
	Back  string // where to go from here
	To    string // what that is called
}

func say(w http.ResponseWriter, status int, m message) {
	if m.Back == "" {
		m.Back, m.To = "./", "All locks"
	}
	show(w, status, "message.html", page{Title: m.Head + " – fenlock", View: m})
}
