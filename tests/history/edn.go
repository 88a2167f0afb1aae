package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// WriteEDN writes the history to a file in the form that Jepsen's checkers read. That is a map a
// line, for each operation one when it is invoked and one when it completes. tests/README.md lists
// the functions (:f) and how to load the file. A history whose events do not fit together is an
// error, and no file is written.
//
// What the form rests on:
//
//   - jepsen.history's README, "Operation Structure" and "Operation Semantics": :index from 0,
//     :time in ns since the start, :process, :type, :f, :value. :ok has taken effect, :fail never
//     does, :info may do either, at any later time. A process does one thing at a time, and nothing
//     after an :info. So a client has as many processes as it has calls at a time, and another for
//     each call of unknown outcome. The nemesis invokes and completes by :info.
//   - knossos.cli's read-history reads maps without a vector around them. knossos.history's
//     complete fills an invocation in with the value of its :ok, and insists that a :fail has
//     the value of its invocation.
//   - jepsen.independent: the value is a tuple [name value]. In EDN that is a vector, which the
//     loader makes a tuple.
//   - the models of Jepsen's Hazelcast suite (OwnerAwareMutex, FencedMutex): a value {:client
//     holder, :fence token}, where the fence 0 is none. A holder here is one acquisition,
//     "client.op": no identity is used again.
//
// A mutex has no leases that expire. So a tenure that was not released cleanly has a second
// :release, marked :expired. It is invoked when its client no longer believes in it, and :ok
// when the next acquisition is known, which found the name free. What Check excuses is not
// excused here: the lines of the nemesis tell of the fault.
//
// An extension that failed is :info: some nodes may have accepted it. Extensions complete in
// the order in which they were invoked: events do not tell which of several has returned. An
// acquisition of unknown outcome is :ok where the resource saw its token. What a client only
// observed (holds, ended, missed, follows, absent, closed) and what is left at the end are no
// operations, and are not written.
func (h *History) WriteEDN(path string) error {
	r, err := newRecord(h)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(file)
	r.writeEDN(w)
	return errors.Join(w.Flush(), file.Close())
}

// call is one operation, from its invocation to its completion.
type call struct {
	*tenure        // nil for the nemesis
	f       string // without the colon
	value   string // of the invocation
	process int
}

// line is the invocation or the completion of a call.
type line struct {
	*call
	at    int64
	kind  string // invoke, ok, fail, info
	value string
	more  string // further fields
}

// lines collects them. open are the calls without a completion, oldest first.
type lines struct {
	all  []line
	open []*call
}

func (ls *lines) invoke(at int64, t *tenure, f, value, more string) {
	c := &call{tenure: t, f: f, value: value}
	ls.open = append(ls.open, c)
	ls.all = append(ls.all, line{c, at, "invoke", value, more})
}

// complete ends the oldest call of f, and does nothing if there is none. A value of "" stands
// for that of the invocation.
func (ls *lines) complete(at int64, t *tenure, f, kind, value, more string) {
	i := slices.IndexFunc(ls.open, func(c *call) bool { return c.tenure == t && c.f == f })
	if i < 0 {
		return
	}
	ls.all = append(ls.all, line{ls.open[i], at, kind, cmp.Or(value, ls.open[i].value), more})
	ls.open = slices.Delete(ls.open, i, i+1)
}

func (r *record) writeEDN(w io.Writer) {
	var ls lines
	for _, name := range r.Header.Names {
		r.expiries(&ls, name)
	}
	for i, e := range r.Events {
		r.event(&ls, e, r.of[i])
	}
	for len(ls.open) > 0 {
		ls.complete(r.end, ls.open[0].tenure, ls.open[0].f, "info", "", "")
	}
	slices.SortStableFunc(ls.all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	free := make(map[int][]int) // processes of a client that do nothing
	processes := 0
	for i, l := range ls.all {
		process := ":nemesis"
		if l.tenure != nil {
			idle := free[l.client]
			switch {
			case l.kind == "ok" || l.kind == "fail":
				free[l.client] = append(idle, l.process)
			case l.kind == "invoke" && len(idle) > 0:
				l.process, free[l.client] = idle[len(idle)-1], idle[:len(idle)-1]
			case l.kind == "invoke":
				l.process = processes
				processes++
			}
			process = fmt.Sprint(l.process)
		}
		fmt.Fprintf(w, "{:index %d, :time %d, :process %s, :type :%s, :f :%s, :value %s%s}\n",
			i, l.at-r.begin, process, l.kind, l.f, l.value, l.more)
	}
}

// expiries adds the releases that no client asked for. They stand before the events of the same
// time: the acquisition that completes then finds the name free.
func (r *record) expiries(ls *lines, name string) {
	tenures := r.byToken(name)
	for i, t := range tenures {
		next := follower(t, tenures[i+1:])
		if t.clean || next == nil {
			continue // nothing depends on when it ends
		}
		ls.invoke(t.expires(), t, "release", t.edn(t.token, ""), ", :expired true")
		ls.complete(max(t.expires(), next.start), t, "release", "ok", "", ", :expired true")
	}
}

func (r *record) event(ls *lines, e Event, t *tenure) {
	failed := ""
	if e.Text != "" {
		failed = ", :error " + quoted(e.Text)
	}
	ends := func(f string) { // a text says that it failed
		kind := "ok"
		if failed != "" {
			kind = "info"
		}
		ls.complete(e.At, t, f, kind, "", failed)
	}
	at := func(f, more string) { // the resource did it at that moment
		if e.Shared {
			f += "-shared"
		}
		ls.complete(e.At, t, t.acquires(), "ok", t.edn(e.Token, ""), "") // if its client could not say so
		ls.invoke(e.At, t, f, t.edn(e.Token, more), "")
		ls.complete(e.At, t, f, "ok", "", "")
	}
	until := ""
	if e.Until > e.At {
		until = fmt.Sprintf(", :until %d", e.Until-r.begin)
	}
	switch e.Kind {
	case Acquire:
		ls.invoke(e.At, t, t.acquires(), t.edn(0, ""), "")
	case Acquired:
		ls.complete(e.At, t, t.acquires(), "ok", t.edn(e.Token, ""), until)
	case Failed:
		ls.complete(e.At, t, t.acquires(), "fail", "", failed)
	case Extend, Downgrade, Release:
		ls.invoke(e.At, t, string(e.Kind), t.edn(t.token, ""), "")
	case Extended:
		ls.complete(e.At, t, "extend", "ok", "", until)
	case ExtendFailed:
		ls.complete(e.At, t, "extend", "info", "", failed)
	case Downgraded:
		ends("downgrade")
	case Released:
		ends("release")
	case ReadValue:
		at("read", fmt.Sprintf(", :value %d", e.Value))
	case Wrote:
		at("write", fmt.Sprintf(", :base %d, :value %d", e.Base, e.Value))
	case Refused:
		at("refuse", "")
	case Fault, Healed:
		f := map[Kind]string{Fault: "start", Healed: "stop"}[e.Kind]
		value := fmt.Sprintf("{:fault %s, :node %d, :breaks %s}", quoted(e.Fault), e.Node, quoted(e.Breaks))
		nemesis := &call{f: f}
		ls.all = append(ls.all, line{nemesis, e.At, "info", value, ""}, line{nemesis, e.At, "info", value, failed})
	}
}

func (t *tenure) acquires() string {
	if t.shared {
		return "acquire-shared"
	}
	return "acquire"
}

// edn is the value of an operation of the tenure.
func (t *tenure) edn(token uint64, more string) string {
	return fmt.Sprintf(`[%s {:client "%d.%d", :fence %d%s}]`, quoted(t.name), t.client, t.op, token, more)
}

// quoted is a string in EDN, whose escapes are those of JSON.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("history: %q: %v", s, err)) // a string always has a form
	}
	return string(text)
}
