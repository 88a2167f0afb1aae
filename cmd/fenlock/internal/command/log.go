//go:build linux || darwin || freebsd

package command

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// quiet is --quiet: nothing is said but errors. It is set before anything is done.
var quiet bool

// say prints one line on stderr, after "fenlock: ", unless fenlock is to be quiet.
func say(format string, args ...any) {
	if !quiet {
		sayError(format, args...)
	}
}

// sayError prints a line in any case. An error cannot be told: stderr is what is broken.
func sayError(format string, args ...any) {
	stderr.print("fenlock: " + plain(fmt.Sprintf(format, args...)) + "\n")
}

// plain makes s fit for one line of a terminal. Errors and labels come from servers and other
// clients, and could carry newlines or escape sequences. It also drops the prefix that the
// library's errors have, wherever they were wrapped.
func plain(s string) string {
	s = strings.ReplaceAll(strings.TrimPrefix(s, "fenlock: "), ": fenlock: ", ": ")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// lineHandler prints the library's log as fenlock prints everything else: from
// level Warn on, "message (key value, key value)". What becomes of nodes, which has a
// state, the observer says.
type lineHandler struct {
	attrs []slog.Attr
	said  *sync.Map // messages: what is said of one node need not be said of each
}

// Enabled leaves out what a person need not act on.
func (lineHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle prints the record. It is safe for concurrent use.
func (h lineHandler) Handle(_ context.Context, r slog.Record) error {
	var details []string
	ofNode := false
	add := func(a slog.Attr) bool {
		ofNode = ofNode || a.Key == "state"
		value := strings.TrimPrefix(a.Value.Resolve().String(), "fenlock: ")
		if a.Value.Kind() == slog.KindString && strings.ContainsAny(value, ", ()") {
			value = strconv.Quote(value)
		}
		details = append(details, a.Key+" "+value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if _, before := h.said.LoadOrStore(r.Message, true); ofNode || before {
		return nil
	}
	line := r.Message
	if len(details) > 0 {
		line += " (" + strings.Join(details, ", ") + ")"
	}
	say("%s", line)
	return nil
}

// WithAttrs returns a handler that prints attrs with each record.
func (h lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

// WithGroup returns h: the keys of one line need no qualification.
func (h lineHandler) WithGroup(string) slog.Handler { return h }

// complaints are what a person has to mend at nodes. They are said once the lock is taken:
// the error of one that is not taken has them too.
type complaints struct {
	mu    sync.Mutex
	taken bool
	texts []string
}

func (c *complaints) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts = append(c.texts, text)
	c.sayAll()
}

// take tells that the lock is taken.
func (c *complaints) take() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = true
	c.sayAll()
}

func (c *complaints) sayAll() {
	for c.taken && len(c.texts) > 0 {
		say("%s", c.texts[0])
		c.texts = c.texts[1:]
	}
}
