package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/check"
)

// tokens checks the tokens and the extensions.
func (x *examination) tokens() {
	checker := check.NewTokens(len(x.Header.Names))
	known := make(map[*tenure]bool)
	renewed := make(map[*tenure]int64)
	for i, e := range x.Events {
		t := x.of[i]
		if t == nil || t.start == 0 || e.At < t.start || e.Kind == Acquire {
			continue
		}
		name, token := slices.Index(x.Header.Names, t.name), fence.Token(t.token)
		found := func(promise, violation string) {
			if violation != "" {
				text := fmt.Sprintf("%q: %v, %v after the start: %s", t.name, t, x.since(e.At), violation)
				x.violated(e.At, promise, x.tokensExcuse(e.At), text)
			}
		}
		if e.Kind == Downgrade {
			checker.Shares(name, t.id())
		}
		if !known[t] {
			known[t] = true
			acquired := checker.Acquired
			if t.shared {
				acquired = checker.AcquiredShared
			}
			found(Tokens, acquired(name, t.id(), token, time.Duration(t.asked), time.Duration(e.At)))
			renewed[t] = e.Until
			continue
		}
		if e.Kind == Extended {
			found(Extension, checker.Extended(name, t.id(), token, time.Duration(x.began[i])))
		}
		// A lock extends itself, too. A validity counts from when the round that
		// set it began, and is no longer than the longest lease.
		if e.Until > max(e.At, renewed[t]) {
			renewed[t] = e.Until
			began := time.Duration(e.Until) - x.Header.MaxTTL
			found(Extension, checker.Extended(name, t.id(), token, began))
		}
	}
}

// resource checks what the guarded resource did, and lists lost updates.
func (x *examination) resource() {
	checker := check.NewUpdates(len(x.Header.Names))
	type account struct {
		value  int
		writer *tenure
	}
	accounts := make(map[string]account)
	for i, e := range x.Events {
		if e.Kind != ReadValue && e.Kind != Wrote {
			continue
		}
		t := x.of[i]
		name := slices.Index(x.Header.Names, e.Name)
		last := accounts[e.Name]
		if e.Kind == ReadValue {
			read := checker.Read
			if e.Shared {
				read = checker.ReadShared
			}
			if v := read(name, fence.Token(e.Token)); v != "" && x.Header.Tokens() {
				x.violated(e.At, Resource, "", fmt.Sprintf("%q: %v, %v after the start: %s", t.name, t, x.since(e.At), v))
			}
			if e.Value != last.value {
				x.violated(e.At, Coherence, "",
					fmt.Sprintf("%q: %v, %v after the start, read %d, and the value was %d", t.name, t, x.since(e.At), e.Value,
						last.value))
			}
			continue
		}
		violation := checker.Wrote(name, fence.Token(e.Token), e.Base, e.Value)
		accounts[e.Name] = account{e.Value, t}
		where := fmt.Sprintf("%q: %v, %v after the start", t.name, t, x.since(e.At))
		if violation != "" && x.Header.Tokens() {
			x.violated(e.At, Resource, "", where+": "+violation)
		}
		if e.Base != last.value {
			since := t.asked
			if last.writer != nil {
				since = min(since, last.writer.asked)
			}
			assumption, _ := x.faults.breaks(since, e.At)
			x.report.Lost = append(x.report.Lost, Damage{
				At: e.At, Name: e.Name, Assumption: assumption,
				Text:   fmt.Sprintf("%s: wrote %d on top of %d, and the value was %d", where, e.Value, e.Base, last.value),
				Faults: x.faults.active(since, e.At),
			})
		}
	}
}

// progressBound is generous on purpose: the machine may be slow.
func (x *examination) progressBound() time.Duration {
	return x.Header.TTL + x.Header.MaxTTL + 20*time.Second
}

// progress checks that every client got every name once it was quiet. Clients
// are those that did anything from then on: one that hangs is missed in their number.
// A violation says how often nodes still failed a client. Many times are a machine that is too slow
// for the TTL, or clients that ask too much. That excuses nothing.
func (x *examination) progress() {
	alive := make(map[int]bool)
	most, missed := 0, 0
	for _, e := range x.Events {
		if e.At >= x.quiet && e.Kind == Missed {
			missed++
		}
		other := e.Kind == Missed || e.Kind == Absent || e.Kind == Follows || e.Kind == ReadValue || e.Kind == Wrote ||
			e.Kind == Refused
		if e.At >= x.quiet && e.Client > 0 && !other {
			alive[e.Client] = true
			most = max(most, e.Client)
		}
	}
	if len(alive) < x.Header.Clients {
		x.violated(x.quiet, Progress, "",
			fmt.Sprintf("of %d clients %d did anything after it was quiet", x.Header.Clients, len(alive)))
	}
	for _, name := range x.Header.Names {
		checker := check.NewProgress(most+1, x.progressBound(), time.Duration(x.quiet))
		for client := range alive {
			checker.Begins(client, time.Duration(x.quiet))
		}
		found := func(at int64, violation string) {
			if violation != "" {
				if missed > 0 {
					violation += fmt.Sprintf("; nodes failed clients %d times meanwhile", missed)
				}
				x.violated(at, Progress, "", fmt.Sprintf("%q: %s", name, violation))
			}
		}
		for _, e := range x.Events {
			if e.Kind == Acquired && e.Name == name && e.At >= x.quiet && checker.Waits(e.Client) {
				found(e.At, checker.Served(e.Client, time.Duration(e.At)))
			}
		}
		found(x.end, checker.Finish(time.Duration(x.end)))
	}
}

// leftovers checks that nothing is left on the servers and in the clients.
func (x *examination) leftovers() {
	closed := make(map[int]bool)
	for _, e := range x.Events {
		switch {
		case e.Kind == Leftover:
			x.violated(e.At, Leftovers, "", fmt.Sprintf("server %d still has a lease of %q: %s", e.Node, e.Name, e.Text))
		case e.Kind == Closed:
			closed[e.Client] = true
			if e.Value != 0 {
				x.violated(e.At, Leftovers, "",
					fmt.Sprintf("client %d has %d goroutines left after it closed its Locker", e.Client, e.Value))
			}
		}
	}
	if x.Header.Tokens() && len(closed) < x.Header.Clients {
		x.violated(x.end, Leftovers, "", fmt.Sprintf("of %d clients %d closed their Locker", x.Header.Clients, len(closed)))
	}
}
