package ui

import (
	"encoding/json"
	"time"
)

// screen is what a page shows of a picture, in pieces that change one by one.
type screen struct {
	at    time.Time
	title string
	parts []part // the content of elements of the page
	lists []list
	// Numbers that change all the time are no reason to replace a piece: a person may be
	// reading it, or have it selected.
	until map[string]until  // by element
	texts map[string]string // by element
}

// part is the content of one element, or an element of a list.
type part struct {
	id       string // of the element
	template string
	view     any
}

// key is equal for parts that look alike but for their numbers.
func (p part) key() string {
	text, err := json.Marshal(p.view)
	if err != nil {
		panic(err) // views are made of texts and numbers
	}
	return string(text)
}

// list is an element whose children come and go.
type list struct {
	id    string
	items []part
}

// until is when a lease ends unless it is extended.
type until struct {
	At   int64 `json:"at"` // Unix time in milliseconds, by the clock of this machine
	Span int64 `json:"span"`
}

// moment is a time that a page shows as how long ago it is.
type moment struct {
	ISO   string
	Exact string
	MS    int64  // Unix time in milliseconds; 0: not known
	Ago   string `json:"-"`
}

func momentOf(t, now time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	return moment{ISO: t.Format(time.RFC3339), Exact: exact(t), MS: t.UnixMilli(), Ago: passed(now.Sub(t))}
}
