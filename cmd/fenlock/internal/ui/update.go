package ui

// update is what a page that is open is sent.
type update struct {
	At int64 `json:"at"` // Unix time in milliseconds
	// when there will be more, in milliseconds from then; looking may take longer
	Next     int64                 `json:"next"`
	Instance string                `json:"instance"`
	Title    string                `json:"title"`
	Parts    map[string]string     `json:"parts,omitempty"` // the new content of elements
	Lists    map[string]listUpdate `json:"lists,omitempty"`
	Until    map[string]until      `json:"until,omitempty"` // ends of leases, by element
	Texts    map[string]string     `json:"texts,omitempty"` // by element
	Trail    []string              `json:"trail,omitempty"` // new events, oldest first
}

// listUpdate is what has become of a list.
type listUpdate struct {
	Order []string          `json:"order"`           // the ids of all items
	Items map[string]string `json:"items,omitempty"` // of new ones, and of those that have changed
}

// sent is what a page has been sent already. It begins empty: the first update has
// everything, whatever the page shows.
type sent struct {
	keys  map[string]string // of parts, by id
	until map[string]until
	texts map[string]string
}

// news returns what a page has to be sent to show a screen and to have told some events.
func (s *sent) news(now screen, events []event) update {
	u := update{At: now.at.UnixMilli(), Title: now.title, Parts: map[string]string{}, Lists: map[string]listUpdate{}}
	keys := map[string]string{}
	changed := func(p part) bool {
		keys[p.id] = p.key()
		old, known := s.keys[p.id]
		return !known || old != keys[p.id]
	}
	for _, p := range now.parts {
		if changed(p) {
			u.Parts[p.id] = html(p.template, p.view)
		}
	}
	for _, l := range now.lists {
		got := listUpdate{Order: []string{}, Items: map[string]string{}}
		for _, p := range l.items {
			got.Order = append(got.Order, p.id)
			if changed(p) {
				got.Items[p.id] = html(p.template, p.view)
			}
		}
		u.Lists[l.id] = got
	}
	u.Until, u.Texts = map[string]until{}, map[string]string{}
	for id, e := range now.until {
		if old, known := s.until[id]; known && old.Span == e.Span && max(old.At-e.At, e.At-old.At) < slack {
			now.until[id] = old // which the page has
			continue
		}
		u.Until[id] = e
	}
	for id, text := range now.texts {
		if old, known := s.texts[id]; !known || old != text {
			u.Texts[id] = text
		}
	}
	for _, e := range events {
		u.Trail = append(u.Trail, html("event", trailRowOf(e)))
	}
	s.keys, s.until, s.texts = keys, now.until, now.texts
	return u
}

// slack is by how many milliseconds the end of a lease may seem to move without being news.
// The end is told as the time that is left, and a question takes a while.
const slack = 150
