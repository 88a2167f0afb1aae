package rule

import (
	"cmp"
	"slices"

	"github.com/fenlock/fenlock/node"
)

// Waiters is a waiter queue in memory, in its order: all of a Queue but the time and
// the way to the waiters. The zero Waiters is empty.
type Waiters []node.Place

// Head implements Queue.
func (w *Waiters) Head() string {
	if len(*w) == 0 {
		return ""
	}
	return (*w)[0].Waiter
}

// Ahead implements Queue.
func (w *Waiters) Ahead(waiter string) (count int, in bool) {
	i := w.index(waiter)
	return i, i < len(*w)
}

// Insert implements Queue.
func (w *Waiters) Insert(p node.Place) {
	i, _ := slices.BinarySearchFunc(*w, p, byStamp)
	*w = slices.Insert(*w, i, p)
}

// Remove implements Queue.
func (w *Waiters) Remove(waiter string) {
	if i := w.index(waiter); i < len(*w) {
		*w = slices.Delete(*w, i, i+1)
	}
}

func (w *Waiters) index(waiter string) int {
	for i, p := range *w {
		if p.Waiter == waiter {
			return i
		}
	}
	return len(*w)
}

func byStamp(a, b node.Place) int {
	return cmp.Or(cmp.Compare(a.Stamp, b.Stamp), cmp.Compare(a.Waiter, b.Waiter))
}
