package ui

import (
	"fmt"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/fenlock/fenlock"
)

// perPage is how many locks one page has.
const perPage = 100

// query is which locks a page shows.
type query struct {
	Filter  string // a part of the names
	Waiting bool   // only those with waiters
	Order   order
	Page    int // from 1 on
}

// parseQuery reads what a browser asks for. The error is for a person to read.
func parseQuery(v url.Values) (q query, err error) {
	q = query{Filter: v.Get("filter"), Waiting: v.Get("waiting") != "", Page: 1}
	switch {
	case len(q.Filter) > fenlock.MaxNameLength:
		return query{Page: 1}, fmt.Errorf("the filter has %d bytes, and no name has more than %d", len(q.Filter),
			fenlock.MaxNameLength)
	case !utf8.ValidString(q.Filter):
		return query{Page: 1}, fmt.Errorf("the filter is not valid UTF-8")
	}
	if q.Order, err = orderOf(v.Get("order")); err != nil {
		return query{Page: 1}, err
	}
	if text := v.Get("page"); text != "" {
		if q.Page, err = strconv.Atoi(text); err != nil || q.Page < 1 || q.Page > MaxLocks {
			return query{Page: 1}, fmt.Errorf("there is no page %.20q", text)
		}
	}
	return q, nil
}

// at returns the path and query of a page of these locks. Like all paths here it is relative to
// the page, which may be below any path of a program or a proxy.
func (q query) at(path string, page int) string {
	v := url.Values{}
	if q.Filter != "" {
		v.Set("filter", q.Filter)
	}
	if q.Waiting {
		v.Set("waiting", "1")
	}
	if q.Order != byName {
		v.Set("order", string(q.Order))
	}
	if page > 1 {
		v.Set("page", strconv.Itoa(page))
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// all reports whether nothing is left out.
func (q query) all() bool { return q.Filter == "" && !q.Waiting }

// choose returns the rows of the page, and how many there are on all of its pages. A page
// that is not there any more is the last one.
func (q *query) choose(rows []entry) (page []entry, all int) {
	var chosen []entry
	for _, e := range rows {
		if e.has(q.Filter) && (!q.Waiting || e.queue().Waiting > 0) {
			chosen = append(chosen, e)
		}
	}
	q.Order.sort(chosen)
	q.Page = min(q.Page, q.pages(len(chosen)))
	first := (q.Page - 1) * perPage
	return chosen[first:min(first+perPage, len(chosen))], len(chosen)
}

// orders are links to the same locks in each order.
func (q query) orders() (all []orderLink) {
	for _, o := range []orderLink{{Text: "name", order: byName}, {Text: "age", order: byAge},
		{Text: "waiters", order: byWaiting}} {
		in := q
		in.Order = o.order
		o.URL, o.Now = in.at("./", 1), o.order == q.Order
		all = append(all, o)
	}
	return all
}

// orderLink is the way to another order.
type orderLink struct {
	Text, URL string
	Now       bool // it is the order of the page
	order     order
}

func (query) pages(all int) int { return max((all+perPage-1)/perPage, 1) }

// lockPath is where the page of one lock is.
func lockPath(name string) string { return "lock?" + url.Values{"name": {name}}.Encode() }

// breakPath is where one is broken.
func breakPath(name string) string { return "break?" + url.Values{"name": {name}}.Encode() }
