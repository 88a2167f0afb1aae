package check

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Tokens: the tokens of a name are unique, and an acquisition that begins after another one
// finished has the larger token. A successful extension means that no client with a larger token
// acquired the name before it began. Readers, which acquired the name to share it, may have one
// token, and the later ones of them larger ones. A holder that had the name alone and lets others
// share it has a token that no reader has.
type Tokens struct{ names []tokenHistory }

type tokenHistory struct {
	owner map[fence.Token]int
	// highs are the acquisitions that had a larger token than all before them, and alone those of
	// them that had the name alone.
	highs, alone []finish
	// By acquisition: which shares the name, and which shared it from the beginning.
	shared, reader map[int]bool
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
		c.names[i] = tokenHistory{owner: make(map[fence.Token]int), shared: make(map[int]bool), reader: make(map[int]bool)}
	}
	return c
}

// newest returns the acquisition with the largest token of those that had
// finished before a time.
func newest(highs []finish, before time.Duration) finish {
	for i := len(highs) - 1; i >= 0; i-- {
		if highs[i].at < before {
			return highs[i]
		}
	}
	return finish{}
}

// Acquired is told of an acquisition that began and has finished now.
func (c *Tokens) Acquired(name, id int, token fence.Token, began, now time.Duration) (violation string) {
	return c.acquired(name, id, token, began, now, false)
}

// AcquiredShared is Acquired of one who shares the name.
func (c *Tokens) AcquiredShared(name, id int, token fence.Token, began, now time.Duration) (violation string) {
	return c.acquired(name, id, token, began, now, true)
}

// Shares is told that an acquisition lets others share the name from now on.
func (c *Tokens) Shares(name, id int) { c.names[name].shared[id] = true }

func (c *Tokens) acquired(name, id int, token fence.Token, began, now time.Duration, shared bool) (violation string) {
	h := &c.names[name]
	if other, taken := h.owner[token]; taken && !(shared && h.reader[other]) {
		violation = fmt.Sprintf("name %d: attempts %d and %d both have token %d", name, other, id, token)
	}
	h.owner[token] = id
	if shared {
		h.shared[id], h.reader[id] = true, true
	}
	if last := newest(h.highs, began); last.token > token {
		violation = fmt.Sprintf("name %d: attempt %d has token %d, although attempt %d finished with %d before it began",
			name, id, token, last.id, last.token)
	}
	if n := len(h.highs); n == 0 || h.highs[n-1].token < token {
		h.highs = append(h.highs, finish{now, token, id})
	}
	if n := len(h.alone); !shared && (n == 0 || h.alone[n-1].token < token) {
		h.alone = append(h.alone, finish{now, token, id})
	}
	return violation
}

// Adopted is told of an acquisition that goes on with the lock of another one, exporter, which it
// began to do at some time.
func (c *Tokens) Adopted(name, id, exporter int, token fence.Token, began time.Duration) (violation string) {
	h := &c.names[name]
	h.shared[id], h.reader[id] = h.shared[exporter], h.reader[exporter]
	if owner := h.owner[token]; owner != exporter && !(h.reader[owner] && h.reader[exporter]) {
		return fmt.Sprintf("name %d: attempt %d adopts the lock of attempt %d with token %d, which is attempt %d's", name, id,
			exporter, token, owner)
	}
	h.owner[token] = id
	return c.Extended(name, id, token, began)
}

// Extended is told of an extension that was carried, and when it began.
func (c *Tokens) Extended(name, id int, token fence.Token, began time.Duration) (violation string) {
	highs := c.names[name].highs
	if c.names[name].shared[id] {
		highs = c.names[name].alone
	}
	if other := newest(highs, began); other.token > token {
		return fmt.Sprintf("name %d: attempt %d extended its lock with token %d, although attempt %d had acquired it with %d before that began", name, id, token, other.id, other.token)
	}
	return ""
}
