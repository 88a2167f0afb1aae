package node

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Share is what an operator sees of one holder that shares a name, on one node.
type Share struct {
	Label string
	// Holder is the Fingerprint of its own identity: equal on all nodes.
	Holder uint64
	// Since is when its attempt began, on its own wall clock; zero if that is not known.
	Since time.Time
	// Token and Origin are as in Lease.
	Token, Origin fence.Token
	// Remaining is what is left of its own lease; 0 if that has no end, or if another
	// one has none.
	Remaining time.Duration
}

// Shares returns the holders that share the name, in no particular order, and whether there may be
// more than the node has told. None do unless the lease is Shared. Names that are reserved for a
// waiter are not among them.
func (l Lease) Shares() (all []Share, more bool) {
	for line := range strings.Lines(l.shares) {
		var behind, since int64
		var s Share
		line = strings.TrimSuffix(line, "\n")
		if line == moreShares {
			return all, true
		}
		fields := strings.SplitN(line, " ", 6)
		if len(fields) != 6 {
			continue
		}
		if _, err := fmt.Sscan(strings.Join(fields[:5], " "), &s.Holder, &behind, &since, &s.Origin, &s.Token); err != nil {
			continue
		}
		if since > 0 {
			s.Since = time.UnixMilli(since)
		}
		if s.Label = fields[5]; l.Remaining > 0 {
			if s.Remaining = l.Remaining - time.Duration(behind); s.Remaining <= 0 {
				continue // it has ended, and the node has not written the others since
			}
		}
		all = append(all, s)
	}
	return all, false
}

// moreShares is the line that stands for those who are not known.
const moreShares = "+"

// sharesOf writes down what Shares returns of a shared holder. Each has a line without an identity,
// so that a Lease can be compared and printed. How long one has left is written as how much sooner
// it ends than the longest, because the node's clock is not known.
func sharesOf(h Holder) string {
	if !h.Shared() {
		return ""
	}
	type reader struct {
		holder                 Holder
		expires, origin, token int64
	}
	var all []reader
	var last int64
	for _, line := range strings.Split(string(h), "\n")[1:] {
		fields := strings.SplitN(line, " ", 4)
		if len(fields) != 4 {
			continue
		}
		r := reader{holder: Holder(fields[3])}
		for i, to := range []*int64{&r.expires, &r.origin, &r.token} {
			*to, _ = strconv.ParseInt(fields[i], 10, 64) // 0: it was changed by hand
		}
		last, all = max(last, r.expires), append(all, r)
	}
	var b strings.Builder
	for _, r := range all {
		if !r.holder.Reserves() {
			since := int64(0)
			if at := r.holder.Since(); !at.IsZero() {
				since = at.UnixMilli()
			}
			fmt.Fprintf(&b, "%d %d %d %d %d %s\n", r.holder.Fingerprint(), last-r.expires, since, max(r.origin, 0),
				max(r.token, 0), r.holder.Label())
		}
	}
	if strings.HasSuffix(string(h), "\n") {
		b.WriteString(moreShares)
	}
	return b.String()
}
