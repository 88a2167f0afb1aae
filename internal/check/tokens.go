package check

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Tokens: the tokens of a name are unique, and an acquisition that begins
// after another one finished has the larger token. A successful extension means
// that nobody with a larger token acquired the name before it began.
type Tokens struct{ names []tokenHistory }

type tokenHistory struct {
	owner map[fence.Token]int
	// highs are the acquisitions that had a larger token than all before them.
	highs []finish
}

type finish struct {
	at    time.Duration
	token fence.Token
	id    int
}

// NewTokens returns a check of so many names.
func NewTokens(names int) Tokens {
	c := Tokens{names: make([]tokenHistory, names)}
	for i := range c.names {
		c.names[i].owner = make(map[fence.Token]int)
	}
	return c
}

// newest returns the acquisition with the largest token of those that had
// finished before a time.
func (c *Tokens) newest(name int, before time.Duration) finish {
	highs := c.names[name].highs
	for i := len(highs) - 1; i >= 0; i-- {
		if highs[i].at < before {
			return highs[i]
		}
	}
	return finish{}
}

// Acquired is told of an acquisition that began and has finished now.
func (c *Tokens) Acquired(name, id int, token fence.Token, began, now time.Duration) (violation string) {
	h := &c.names[name]
	if other, taken := h.owner[token]; taken {
		violation = fmt.Sprintf("name %d: attempts %d and %d both have token %d", name, other, id, token)
	}
	h.owner[token] = id
	if last := c.newest(name, began); last.token > token {
		violation = fmt.Sprintf("name %d: attempt %d has token %d, although attempt %d finished with %d before it began", name, id, token, last.id, last.token)
	}
	if n := len(h.highs); n == 0 || h.highs[n-1].token < token {
		h.highs = append(h.highs, finish{now, token, id})
	}
	return violation
}

// Extended is told of an extension that was carried, and when it began.
func (c *Tokens) Extended(name, id int, token fence.Token, began time.Duration) (violation string) {
	if other := c.newest(name, began); other.token > token {
		return fmt.Sprintf("name %d: attempt %d extended its lock with token %d, although attempt %d had acquired it with %d before that began", name, id, token, other.id, other.token)
	}
	return ""
}
