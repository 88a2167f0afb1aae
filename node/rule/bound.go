package rule

import (
	"time"

	"github.com/fenlock/fenlock/node"
)

// Bind has what a holder has of the name last as long as its processes do. It follows an operation
// that has granted that.
func (e *Entry) Bind(h node.Holder, now time.Duration) {
	if e.leasedTo(h, now) {
		e.Expires = Bound
		return
	}
	if s, shared := e.readers(now); shared {
		if own := s.of(h); own != nil {
			own.expires = Bound
			e.share(s)
		}
	}
}

// BoundTo returns the holders to whose processes the leases of the name are bound.
func (e *Entry) BoundTo(now time.Duration) (all []node.Holder) {
	if !e.Leased(now) || e.Expires != Bound {
		return nil // nor does that of any reader last so long
	}
	if !e.Holder.Shared() {
		return []node.Holder{e.Holder}
	}
	s, _ := e.readers(now)
	for _, r := range s.all {
		if r.expires == Bound {
			all = append(all, r.holder)
		}
	}
	return all
}

// Ended takes from the name what is bound to processes that have ended. It comes before an
// operation: those who wait hear of it by the rules of that.
func (e *Entry) Ended(now time.Duration, alive func(node.Holder) bool) {
	for _, h := range e.BoundTo(now) {
		if !alive(h) && !e.leave(h, now) {
			e.Holder = ""
		}
	}
}
