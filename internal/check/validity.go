package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// tenure is how long one holder may believe in its lock, in true time.
type tenure struct {
	id     int // of the attempt
	token  fence.Token
	until  time.Duration
	shared bool
}

// Validity: the validity of two holders of a name never overlaps, unless both share it.
type Validity struct{ names [][]tenure }

// NewValidity returns a check of so many names, 0 and up.
func NewValidity(names int) Validity {
	return Validity{names: make([][]tenure, names)}
}

// Begins is told of an acquisition: its holder believes until then.
func (c *Validity) Begins(name, id int, token fence.Token, now, until time.Duration) (violation string) {
	return c.begins(name, tenure{id, token, until, false}, now)
}

// BeginsShared is Begins of one who shares the name.
func (c *Validity) BeginsShared(name, id int, token fence.Token, now, until time.Duration) (violation string) {
	return c.begins(name, tenure{id, token, until, true}, now)
}

// Shares is told that a holder lets others share the name.
func (c *Validity) Shares(name, id int) {
	for i := range c.names[name] {
		if t := &c.names[name][i]; t.id == id {
			t.shared = true
		}
	}
}

func (c *Validity) begins(name int, n tenure, now time.Duration) (violation string) {
	c.prune(name, now)
	for _, t := range c.names[name] {
		if t.shared && n.shared {
			continue
		}
		violation = fmt.Sprintf(
			"name %d: attempt %d begins to hold it with token %d, while attempt %d holds it with token %d for another %v",
			name, n.id, n.token, t.id, t.token, t.until-now)
	}
	c.names[name] = append(c.names[name], n)
	return violation
}

// Extended is told of a longer validity.
func (c *Validity) Extended(name, id int, now, until time.Duration) (violation string) {
	c.prune(name, now)
	found, shared := false, false
	for _, t := range c.names[name] {
		shared = shared || t.id == id && t.shared
	}
	for i := range c.names[name] {
		t := &c.names[name][i]
		if t.id == id {
			t.until, found = until, true
			continue
		}
		if shared && t.shared {
			continue
		}
		violation = fmt.Sprintf("name %d: attempt %d extends while attempt %d holds it with token %d for another %v", name,
			id, t.id, t.token, t.until-now)
	}
	if !found {
		violation = fmt.Sprintf("name %d: attempt %d extends a lock that has ended", name, id)
	}
	return violation
}

// Ends is told that a holder gave up or lost its lock.
func (c *Validity) Ends(name, id int) {
	c.names[name] = slices.DeleteFunc(c.names[name], func(t tenure) bool { return t.id == id })
}

// Held reports whether any client holds anything.
func (c *Validity) Held(now time.Duration) bool {
	for name := range c.names {
		for _, t := range c.names[name] {
			if now < t.until {
				return true
			}
		}
	}
	return false
}

func (c *Validity) prune(name int, now time.Duration) {
	c.names[name] = slices.DeleteFunc(c.names[name], func(t tenure) bool { return t.until <= now })
}
