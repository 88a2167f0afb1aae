package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
)

// A page names the holder, and its form sends back which holder the page named. So the lock of a
// holder that came later is not broken.

// breakLimit is how long it may take to break a lock.
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

func (p *pages) askToBreak(w http.ResponseWriter, r *http.Request) {
	if name, ok := p.breakable(w, r.URL.Query().Get("name")); ok {
		p.ask(w, r, http.StatusOK, name, "")
	}
}

// breakable returns the name of a lock that may be broken. Otherwise it answers the request.
func (p *pages) breakable(w http.ResponseWriter, name string) (string, bool) {
	switch err := fenlock.CheckName(name); {
	case !p.mayBreak:
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

// ask shows what will be broken, and asks.
func (p *pages) ask(w http.ResponseWriter, r *http.Request, status int, name, again string) {
	ctx, cancel := context.WithTimeout(r.Context(), breakLimit)
	defer cancel()
	l, ok := p.look(ctx, w, name)
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
func (p *pages) look(ctx context.Context, w http.ResponseWriter, name string) (lock, bool) {
	if !p.asking.enter(ctx) {
		return lock{}, false
	}
	defer p.asking.leave()
	info, err := p.source.Inspect(ctx, name)
	if err != nil {
		p.refuse(w, name, fmt.Sprintf("%s was not broken", visible(name)), err,
			"Nothing was sent to any node. A lock can be broken while a majority of the nodes answers.")
		return lock{}, false
	}
	info.Name = name
	l := lock{LockInfo: info, at: time.Now(), queued: true}
	l.steady(nil)
	return l, true
}

func (p *pages) refuse(w http.ResponseWriter, name, head string, err error, more string) {
	text := []string{sentence(err)}
	if quorum, is := errors.AsType[*fenlock.QuorumError](err); is {
		text = []string{fmt.Sprintf("%d of %d nodes do not answer, or do not vote.", len(quorum.Errors), quorum.Nodes)}
		for _, n := range quorum.Errors {
			text = append(text, address(n.Node)+": "+reason(n.Node, n.Err))
		}
	}
	say(w, http.StatusServiceUnavailable,
		message{Class: "bad", Head: head, Text: append(text, more), Back: lockPath(name), To: "Back to the lock"})
}

func (p *pages) breakLock(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		say(w, http.StatusBadRequest, message{Class: "bad", Head: "That form cannot be read",
			Text: []string{"Nothing was broken: " + sentence(err)}})
		return
	}
	name, ok := p.breakable(w, r.PostForm.Get("name"))
	if !ok {
		return
	}
	// Closing the window does not withdraw the confirmation.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), breakLimit)
	defer cancel()
	now, ok := p.look(ctx, w, name)
	if !ok {
		return
	}
	if r.PostForm.Get("seen") != fingerprint(now.LockInfo) {
		p.ask(w, r, http.StatusConflict, name,
			"Nothing was broken: meanwhile the holder has changed, or the lock is free.")
		return
	}
	broken, err := p.source.ForceRelease(ctx, name)
	if err != nil {
		p.log("breaking %q failed, asked for by %s: %v", name, r.RemoteAddr, err)
		p.refuse(w, name, fmt.Sprintf("%s may not be broken", visible(name)), err,
			"Some nodes may have dropped the lease, and its holder may make it again. Try once more when a majority answers: that does no harm.")
		return
	}
	p.tell(r, name, broken)
	p.broken(w, name, broken)
}

// tell records the break in the log and in the trail of all pages.
func (p *pages) tell(r *http.Request, name string, broken admin.Broken) {
	if broken.Token == 0 {
		return
	}
	p.log("broke %q, held by %s, for a browser at %s", name, who(broken.Lock.Label), r.RemoteAddr)
	p.poller.trail.add(event{kind: broke, lock: name, text: "broken on this page; " + who(broken.Lock.Label) + " had it"})
	p.poller.soon()
}

func (p *pages) broken(w http.ResponseWriter, name string, broken admin.Broken) {
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
	return !slices.ContainsFunc(l.Votes, func(v admin.Vote) bool { return v.Err != nil || v.Leased })
}

// fingerprint stands for the holder that a page has shown.
func fingerprint(l admin.LockInfo) string {
	text := fmt.Appendf(nil, "%d %q %d", l.State, l.Label, l.Since.UnixNano())
	for _, s := range l.Shares {
		text = fmt.Appendf(text, " %q %d", s.Label, s.Since.UnixNano())
	}
	return digest(text)
}
