package rule

import (
	"slices"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Each calls keep for the holder of a lease, or for each that shares it, with the end of the lease
// for that one. It returns the lease of those for which keep returned true, the zero Lease if there
// is none. It is for a store that knows by another way than its clock that a time has come.
func (l Lease) Each(keep func(h node.Holder, expires time.Duration) bool) Lease {
	e := Entry{Holder: l.Holder, Expires: l.Expires, Origin: l.Origin, Token: l.Token}
	s, shared := e.readers(0)
	if !shared || !l.Holder.Shared() {
		if !keep(l.Holder, l.Expires) {
			return Lease{}
		}
		return l
	}
	all := len(s.all)
	s.all = slices.DeleteFunc(s.all, func(r reader) bool { return !keep(r.holder, r.expires) })
	if len(s.all) < all {
		e.share(s)
	}
	return Lease{e.Holder, e.Expires, e.Origin, e.Token}
}
