//go:build linux || darwin || freebsd

package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
)

// The documents of --json, as docs/json.md has them. A field that is not known is left
// out. Fields may be added; none changes its meaning.

type listDoc struct {
	Locks []lockDoc      `json:"locks"`
	Nodes []nodeErrorDoc `json:"node_errors"`
	More  bool           `json:"more"`
}

type nodeErrorDoc struct {
	Node  string `json:"node"`
	Error string `json:"error"`
}

type lockDoc struct {
	Name      string      `json:"name"`
	State     string      `json:"state"`
	Holder    string      `json:"holder,omitempty"`
	Since     *time.Time  `json:"since,omitempty"`
	HeldMS    int64       `json:"held_ms,omitempty"`
	Token     uint64      `json:"token,omitempty"`
	LeftMS    int64       `json:"left_ms,omitempty"`
	Endless   bool        `json:"endless,omitempty"`
	Bound     bool        `json:"bound,omitempty"`
	VotesFor  int         `json:"votes_for"`
	VotesNeed int         `json:"votes_needed"`
	SharedBy  []shareDoc  `json:"shared_by,omitempty"`
	MoreShare bool        `json:"shared_by_more,omitempty"`
	Slots     int         `json:"slots,omitempty"`
	Votes     []voteDoc   `json:"votes"`
	Waiting   int         `json:"waiting"`
	Waiters   []waiterDoc `json:"waiters,omitempty"`
}

type shareDoc struct {
	Label  string     `json:"label,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	HeldMS int64      `json:"held_ms,omitempty"`
	Token  uint64     `json:"token,omitempty"`
	LeftMS int64      `json:"left_ms,omitempty"`
	Nodes  int        `json:"nodes"`
}

type voteDoc struct {
	Node     string `json:"node"`
	Holds    bool   `json:"holds"`
	Leased   bool   `json:"leased"`
	Reserved bool   `json:"reserved,omitempty"`
	Label    string `json:"label,omitempty"`
	LeftMS   int64  `json:"left_ms,omitempty"`
	Out      bool   `json:"out,omitempty"`
	Error    string `json:"error,omitempty"`
}

type waiterDoc struct {
	Label    string `json:"label,omitempty"`
	WaitedMS int64  `json:"waited_ms"`
	Nodes    int    `json:"nodes"`
}

// brokenDoc is what a forced release came to.
type brokenDoc struct {
	Lock   lockDoc `json:"lock"`
	Broken bool    `json:"broken"`
	Token  uint64  `json:"token,omitempty"`
}

func lockOf(l admin.LockInfo, now time.Time) lockDoc {
	d := lockDoc{
		Name: l.Name, State: l.State.String(), Holder: l.Label, Token: uint64(l.Token), LeftMS: l.Left.Milliseconds(),
		Endless: l.State == admin.Held && l.Left == 0, Bound: l.Bound, VotesNeed: len(l.Votes)/2 + 1, Votes: []voteDoc{},
		Waiting:   l.Waiting,
		MoreShare: l.MoreShares, Slots: l.Slots,
	}
	d.Since, d.HeldMS = sinceOf(l.Since, now)
	for _, s := range l.Shares {
		one := shareDoc{Label: s.Label, Token: uint64(s.Token), LeftMS: s.Left.Milliseconds(), Nodes: s.Nodes}
		one.Since, one.HeldMS = sinceOf(s.Since, now)
		d.SharedBy = append(d.SharedBy, one)
	}
	for _, v := range l.Votes {
		vote := voteDoc{Node: v.Node, Holds: v.Holds, Leased: v.Leased, Reserved: v.Reserved, Label: v.Label,
			LeftMS: v.Left.Milliseconds(), Out: v.Out}
		if v.Err != nil {
			vote.Error = reason(v.Node, v.Err)
		}
		if v.Holds {
			d.VotesFor++
		}
		d.Votes = append(d.Votes, vote)
	}
	for _, w := range l.Waiters {
		d.Waiters = append(d.Waiters, waiterDoc{w.Label, w.Waited.Milliseconds(), w.Nodes})
	}
	return d
}

// sinceOf is nothing for a time that is not known.
func sinceOf(at, now time.Time) (since *time.Time, held int64) {
	if at.IsZero() {
		return nil, 0
	}
	at = at.UTC()
	return &at, max(now.Sub(at).Milliseconds(), 0)
}

func nodeErrors(errs []fenlock.NodeError) []nodeErrorDoc {
	all := []nodeErrorDoc{}
	for _, e := range errs {
		all = append(all, nodeErrorDoc{e.Node, reason(e.Node, e.Err)})
	}
	return all
}

// reason is a node's error without the node's name, which stands beside it.
func reason(node string, err error) string {
	return strings.TrimPrefix(flagNames.Replace(err.Error()), node+": ")
}

// encode prints one document on one line: with --watch each look is one.
func encode(w io.Writer, doc any) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(doc)
	io.WriteString(w, harmless(b.String()))
}

// harmless escapes what package encoding/json leaves as it is and a terminal may obey, such
// as U+009B, which begins an escape sequence. To a program it is the same document.
func harmless(document string) string {
	var b strings.Builder
	for _, r := range document {
		switch {
		case unicode.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.String()
}
