package ui

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
)

// breaking breaks locks. A page names the holder, and its form sends back which holder the page
// named. So the lock of a holder that came later is not broken.
type breaking struct {
	source Source
	poller *poller
	log    func(format string, args ...any)
	may    bool
	asking turns
}

// breakLimit is how long it may take.
const breakLimit = 15 * time.Second

// question is the page that asks whether a lock is to be broken.
type question struct {
	Name  string // as it is
	Shown string
	Row   lockRow
	Seen  string // what stands for what the page shows
	Again string // why it asks once more
	Back  string
}

func (b *breaking) ask(w http.ResponseWriter, r *http.Request) {
	if name, ok := b.name(w, r, r.URL.Query().Get("name")); ok {
		b.answer(w, r, http.StatusOK, name, "")
	}
}

// name returns the name of a lock that may be broken. Otherwise it answers the request.
func (b *breaking) name(w http.ResponseWriter, _ *http.Request, name string) (string, bool) {
	switch err := fenlock.CheckName(name); {
	case !b.may:
		say(w, http.StatusForbidden, message{
			Class: "warn", Head: "Locks can only be looked at here",
			Text: []string{"Nothing was broken. This page was started without --allow-release. fenlock release --force NAME breaks a lock from a terminal."},
		})
	case err != nil:
		say(w, http.StatusBadRequest, message{Class: "bad", Head: "That cannot be the name of a lock",
			Text: []string{"Nothing was broken: " + sentence(err)}})
	default:
		return name, true
	}
	return "", false
}

// answer shows what will be broken, and asks.
func (b *breaking) answer(w http.ResponseWriter, r *http.Request, status int, name, again string) {
	ctx, cancel := context.WithTimeout(r.Context(), breakLimit)
	defer cancel()
	l, ok := b.look(ctx, w, name)
	if !ok {
		return
	}
	row := lockRowOf(entry{lock: l}, time.Now(), false, true)
	if untaken(l.LockInfo) {
		say(w, status, message{
			Class: "good", Head: fmt.Sprintf("%s is not held", visible(name)),
			Text: []string{again, "There is nothing to break."},
			Back: lockPath(name), To: "Back to the lock",
		})
		return
	}
	show(w, status, "break.html", page{Title: "Break " + visible(name) + "? – fenlock", View: question{
		Name: name, Shown: visible(name), Row: row, Seen: fingerprint(l.LockInfo), Again: again, Back: lockPath(name),
	}})
}

// look inspects the lock. If too few nodes answer, it answers the request.
func (b *breaking) look(ctx context.Context, w http.ResponseWriter, name string) (lock, bool) {
	if !b.asking.enter(ctx) {
		return lock{}, false
	}
	defer b.asking.leave()
	info, err := b.source.Inspect(ctx, name)
	if err != nil {
		b.refuse(w, name, fmt.Sprintf("%s was not broken", visible(name)), err,
			"Nothing was sent to any node. A lock can be broken while a majority of the nodes answers.")
		return lock{}, false
	}
	info.Name = name
	l := lock{LockInfo: info, at: time.Now(), queued: true}
	l.steady(nil)
	return l, true
}

func (b *breaking) refuse(w http.ResponseWriter, name, head string, err error, more string) {
	text := []string{sentence(err)}
	var quorum *fenlock.QuorumError
	if errors.As(err, &quorum) {
		text = []string{fmt.Sprintf("%d of %d nodes do not answer, or do not vote.", len(quorum.Errors), quorum.Nodes)}
		for _, n := range quorum.Errors {
			text = append(text, address(n.Node)+": "+reason(n.Node, n.Err))
		}
	}
	say(w, http.StatusServiceUnavailable,
		message{Class: "bad", Head: head, Text: append(text, more), Back: lockPath(name), To: "Back to the lock"})
}

func (b *breaking) do(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		say(w, http.StatusBadRequest, message{Class: "bad", Head: "That form cannot be read",
			Text: []string{"Nothing was broken: " + sentence(err)}})
		return
	}
	name, ok := b.name(w, r, r.PostForm.Get("name"))
	if !ok {
		return
	}
	// Closing the window does not withdraw the confirmation.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), breakLimit)
	defer cancel()
	now, ok := b.look(ctx, w, name)
	if !ok {
		return
	}
	if r.PostForm.Get("seen") != fingerprint(now.LockInfo) {
		b.answer(w, r, http.StatusConflict, name,
			"Nothing was broken: meanwhile the holder has changed, or the lock is free.")
		return
	}
	broken, err := b.source.ForceRelease(ctx, name)
	if err != nil {
		b.log("breaking %q failed, asked for by %s: %v", name, r.RemoteAddr, err)
		b.refuse(w, name, fmt.Sprintf("%s may not be broken", visible(name)), err,
			"Some nodes may have dropped the lease, and its holder may make it again. Try once more when a majority answers: that does no harm.")
		return
	}
	b.tell(r, name, broken)
	b.broken(w, name, broken)
}

// tell records the break in the log and in the trail of all pages.
func (b *breaking) tell(r *http.Request, name string, broken admin.Broken) {
	if broken.Token == 0 {
		return
	}
	b.log("broke %q, held by %s, for a browser at %s", name, who(broken.Lock.Label), r.RemoteAddr)
	b.poller.trail.add(event{kind: broke, lock: name, text: "broken on this page; " + who(broken.Lock.Label) + " had it"})
	b.poller.soon()
}

func (b *breaking) broken(w http.ResponseWriter, name string, broken admin.Broken) {
	m := message{Class: "good", Head: fmt.Sprintf("%s is broken", visible(name)), Back: lockPath(name),
		To: "See its holder now"}
	l := broken.Lock
	if broken.Token == 0 {
		m.Head = fmt.Sprintf("%s was no longer held", visible(name))
		m.Text = []string{"There was nothing to break."}
		say(w, http.StatusOK, m)
		return
	}
	text := who(l.Label) + " had it"
	if !l.Since.IsZero() {
		text += " for " + passed(time.Since(l.Since))
	}
	if l.Token != 0 {
		text += ", with token " + l.Token.String()
	}
	m.Text = append(m.Text, text+". It cannot extend the lock any more, and hears of that with its next extension, within a third of its TTL.")
	if l.Waiting > 0 {
		m.Text = append(m.Text, fmt.Sprintf("%s: the first of them was told that it is free.",
			plural(l.Waiting, "was waiting", "were waiting")))
	}
	m.Text = append(m.Text, fmt.Sprintf("Every token from now on is larger than %s.", broken.Token))
	say(w, http.StatusOK, m)
}

// untaken reports that no node has a lease, and all have said so.
func untaken(l admin.LockInfo) bool {
	for _, v := range l.Votes {
		if v.Err != nil || v.Leased {
			return false
		}
	}
	return true
}

// fingerprint stands for the holder that a page has shown.
func fingerprint(l admin.LockInfo) string {
	text := fmt.Appendf(nil, "%d %q %d", l.State, l.Label, l.Since.UnixNano())
	for _, s := range l.Shares {
		text = fmt.Appendf(text, " %q %d", s.Label, s.Since.UnixNano())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
