package check

import (
	"fmt"

	"github.com/fenlock/fenlock/fence"
)

// Updates: a guarded resource never takes a write of an older token than it was used with. It never
// takes a read of an older token than it was written with. No update is lost. It keeps its own
// account, and knows nothing of the guard.
type Updates struct{ resources []account }

type account struct {
	read, written fence.Token // the largest
	value         int
}

// NewUpdates returns a check of so many resources, whose value is 0.
func NewUpdates(names int) Updates { return Updates{make([]account, names)} }

// Read is told of a read, by an exclusive holder, that was let through.
func (c *Updates) Read(name int, token fence.Token) (violation string) {
	a := &c.resources[name]
	if newest := max(a.read, a.written); token < newest {
		violation = fmt.Sprintf("resource %d let a read through with token %d after it was used with %d", name, token, newest)
	}
	a.written = max(a.written, token)
	return violation
}

// ReadShared is told of a read, by a client that shares the name, that was let through. Others may
// have read with larger tokens, but none may have written.
func (c *Updates) ReadShared(name int, token fence.Token) (violation string) {
	a := &c.resources[name]
	if token < a.written {
		violation = fmt.Sprintf("resource %d let a read through with token %d after it was written with %d", name, token,
			a.written)
	}
	a.read = max(a.read, token)
	return violation
}

// Wrote is told of a write that was let through: value is based on what its
// writer had read.
func (c *Updates) Wrote(name int, token fence.Token, base, value int) (violation string) {
	a := &c.resources[name]
	newest := max(a.read, a.written)
	switch {
	case token < newest:
		violation = fmt.Sprintf("resource %d took a write with token %d after it was used with %d", name, token, newest)
	case base != a.value:
		violation = fmt.Sprintf("resource %d: the write with token %d was based on %d and not on %d, so updates are lost",
			name, token, base, a.value)
	}
	a.written, a.value = max(a.written, token), value
	return violation
}
