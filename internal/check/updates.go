package check

import (
	"fmt"

	"github.com/fenlock/fenlock/fence"
)

// Updates: a guarded resource never takes a write of an older token than it
// was used with, and no update is lost. It keeps its own account, and knows
// nothing of the guard.
type Updates struct{ resources []account }

type account struct {
	newest fence.Token
	value  int
}

// NewUpdates returns a check of so many resources, whose value is 0.
func NewUpdates(names int) Updates { return Updates{make([]account, names)} }

// Read is told of a read that was let through.
func (c *Updates) Read(name int, token fence.Token) {
	c.resources[name].newest = max(c.resources[name].newest, token)
}

// Wrote is told of a write that was let through: value is based on what its
// writer had read.
func (c *Updates) Wrote(name int, token fence.Token, base, value int) (violation string) {
	a := &c.resources[name]
	switch {
	case token < a.newest:
		violation = fmt.Sprintf("resource %d took a write with token %d after it was used with %d", name, token, a.newest)
	case base != a.value:
		violation = fmt.Sprintf("resource %d: the write with token %d was based on %d and not on %d, so updates are lost", name, token, base, a.value)
	}
	a.newest, a.value = max(a.newest, token), value
	return violation
}
