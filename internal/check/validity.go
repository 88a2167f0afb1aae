package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// tenure is how long one holder may believe in its lock, in true time.
type tenure struct {
	id    int // of the attempt
	token fence.Token
	until time.Duration
}

// Validity: the validity of two holders of a name never overlaps.
type Validity struct{ names [][]tenure }

// NewValidity returns a check of so many names, 0 and up.
func NewValidity(names int) Validity {
	return Validity{names: make([][]tenure, names)}
}

// Begins is told of an acquisition: its holder believes until then.
func (c *Validity) Begins(name, id int, token fence.Token, now, until time.Duration) (violation string) {
	c.prune(name, now)
	for _, t := range c.names[name] {
		violation = fmt.Sprintf("name %d: attempt %d begins to hold it with token %d, while attempt %d holds it with token %d for another %v",
			name, id, token, t.id, t.token, t.until-now)
	}
	c.names[name] = append(c.names[name], tenure{id, token, until})
	return violation
}

// Extended is told of a longer validity.
func (c *Validity) Extended(name, id int, now, until time.Duration) (violation string) {
	c.prune(name, now)
	found := false
	for i := range c.names[name] {
		t := &c.names[name][i]
		if t.id == id {
			t.until, found = until, true
			continue
		}
		violation = fmt.Sprintf("name %d: attempt %d extends while attempt %d holds it with token %d for another %v", name, id, t.id, t.token, t.until-now)
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

// Held reports whether anybody holds anything.
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
