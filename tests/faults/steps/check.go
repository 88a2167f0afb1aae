//go:build linux

package steps

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/internal/proof/trace"
)

// What a check is told beside what the servers did.
type Claims struct {
	Names  []string
	Shared bool // some share the names
	// Tokens are those that clients were given, by name.
	Tokens map[string][]uint64
	// Durable: each write is on disk before it is answered.
	Durable bool
	// MovedClock reports whether the clock of a server was moved at any time.
	MovedClock func(node int) bool
}

// Result is what came of a check.
type Result struct {
	Steps   int // of the model
	Lost    int // how often a server lost its memory, and was admitted again
	Admits  int
	Untied  string // why the record was not looked at to its end; "" if it was
	Refused error  // a step that is none of the model
}

// checker takes the steps of all servers in one order. What one server did comes in its own order.
// Where a step needs what another server did before, that is taken first, though it was heard
// later.
type checker struct {
	Claims
	names   []*name
	nodes   []*follower
	holders map[string]uint64
	untied  string
	lost    int
	admits  int
}

// follower is a server as it is followed.
type follower struct {
	units []unit
	at    int
	store *store
	ended bool   // its process ended, and not all that this did last may have been heard
	lost  bool   // it has lost its memory, and was not admitted since
	since int    // the number of the step by which it was lost
	reads []read // of its registers, by those who have another server admitted
}

type read struct {
	step int
	of   []trace.Reading // by name
}

// Check has each step be one of the model. The recorder has to be stopped.
func (r *Recorder) Check(c Claims) (result Result) {
	if r.unread != nil {
		result.Refused = r.unread
		return result
	}
	k := &checker{Claims: c, holders: map[string]uint64{}}
	texts := map[string]string{}
	for range 2 { // a script may be loaded on another server first
		k.nodes = nil
		for _, n := range r.nodes {
			all, err := units(n.events, texts)
			if err != nil {
				result.Refused = err
				return result
			}
			k.nodes = append(k.nodes, &follower{units: all})
		}
	}
	for _, of := range c.Names {
		k.names = append(k.names, newName(of, c, len(k.nodes)))
	}
	k.tell()
	result.Refused = k.run()
	for i, n := range k.names {
		result.Steps += n.Steps()
		holders := map[uint64]int{} // by token
		for _, t := range n.finished {
			holders[t]++
		}
		for _, t := range c.Tokens[c.Names[i]] {
			if holders[t]--; holders[t] < 0 && result.Refused == nil && k.untied == "" &&
				!k.unheard(n, t, slices.Collect(maps.Values(k.holders))...) {
				result.Refused = fmt.Errorf("%s: a client was given the token %d, which no majority has promised to one holder",
					c.Names[i], t)
			}
		}
	}
	result.Untied, result.Lost, result.Admits = k.untied, k.lost, k.admits
	return result
}

// tell notes the tokens that holders have told when they extended: some had no time to write them
// down. Several that share the name may have been promised the same numbers. So it notes whose
// token is which, by what the holder has asked to confirm as well.
func (k *checker) tell() {
	for _, f := range k.nodes {
		for i := range f.units {
			all, _ := f.units[i].requests()
			for _, q := range all {
				n := k.named(q.lease)
				if n == nil {
					continue
				}
				t := q.token
				if t != 0 {
					n.known[t] = true
				} else if q.op == trace.Confirm {
					t = q.number
				}
				if t != 0 {
					h := k.holder(q.holder)
					n.told[h] = max(n.told[h], t)
				}
			}
		}
	}
}

func (k *checker) named(key string) *name {
	for _, n := range k.names {
		if n.key == key {
			return n
		}
	}
	return nil
}

func (k *checker) holder(text string) uint64 {
	id, has := k.holders[text]
	if !has {
		id = uint64(len(k.holders) + 1)
		k.holders[text] = id
	}
	return id
}

// run takes all steps.
func (k *checker) run() error {
	for step := 0; k.untied == ""; step++ {
		var blocked error
		var missing []unpromised
		best, tried := -1, make([]bool, len(k.nodes))
		for {
			best = -1
			for i, f := range k.nodes {
				if !tried[i] && f.at < len(f.units) && (best < 0 || f.units[f.at].at < k.nodes[best].units[k.nodes[best].at].at) {
					best = i
				}
			}
			if best < 0 {
				for _, m := range missing {
					if k.unheard(m.name, m.token, m.holder) {
						return nil
					}
				}
				return blocked // nil: that was all
			}
			f := k.nodes[best]
			waits, err := k.take(best, f, &f.units[f.at], step)
			if err != nil {
				return fmt.Errorf("server %d: %w\nafter it did\n%s", best+1, err, f.recent())
			}
			if waits == nil {
				f.at++
				break
			}
			tried[best] = true
			if m, is := waits.(unpromised); is {
				missing = append(missing, m)
			}
			if blocked == nil {
				blocked = fmt.Errorf("server %d: %w\nafter it did\n%s", best+1, waits, f.recent())
			}
		}
	}
	return nil
}

// unpromised is a token that no majority has promised to its holder so far.
type unpromised struct {
	error
	name          *name
	holder, token uint64
}

// unheard has the record end if only promises of servers are missing whose processes ended. Such a
// promise may have reached the client, and not the recorder. It reports whether that may be so for
// one of the holders.
func (k *checker) unheard(n *name, token uint64, holders ...uint64) bool {
	for _, h := range holders {
		if n.finished[h] != 0 || !n.Begun(h) {
			continue
		}
		for i, f := range k.nodes {
			if f.ended {
				n.Fix("promised", 1, uint64(i), h, token)
			}
		}
		if n.Do("finish", h, trace.Any, token) == nil {
			k.untied = fmt.Sprintf("a server ended, and that it promised the token %d was not heard", token)
			return true
		}
	}
	return false
}

// recent is what the server did last, and what it was to do, of what may change something.
func (f *follower) recent() string {
	var all []string
	for at := f.at; at >= 0 && len(all) < 30; at-- {
		u := &f.units[at]
		if u.script == "" && !changes(u.line) && u.store == nil {
			continue
		}
		text := fmt.Sprintf("  %.3f %s %q %q", u.line.at/1000, u.script, u.keys, u.argv)
		if u.script == "" {
			text = fmt.Sprintf("  %.3f %.100q", u.line.at/1000, u.line.args)
		}
		for _, l := range u.calls {
			if changes(l) {
				text += fmt.Sprintf("\n    %q", l.args)
			}
		}
		all = append(all, text)
	}
	slices.Reverse(all)
	return strings.Join(all, "\n")
}

// see is what a server has of a name. Reservations are no leases, and keep no epoch.
func (k *checker) see(s *store, n *name) *trace.Node {
	x := &trace.Node{Register: s.register(n.stripe)}
	epoch, leases := split(s.leases[n.key].value)
	for _, l := range leases {
		x.Leases = append(x.Leases, trace.Lease{Holder: k.holder(l.holder), Origin: l.origin})
		if l.ends != 0 {
			x.Sharing, x.Epoch = true, epoch
		}
	}
	return x
}

// take takes what a server did. Waits is why something else has to come first.
func (k *checker) take(i int, f *follower, u *unit, step int) (waits, err error) {
	switch {
	case u.store != nil:
		return nil, k.begins(i, f, u.store.clone(), step)
	case u.line.args[0] == "HGETALL" && len(u.line.args) == 2 && u.line.args[1] == registers:
		r := read{step: step}
		for _, n := range k.names {
			r.of = append(r.of, trace.Reading{Node: i, Register: f.store.register(n.stripe), Out: n.Out(i)})
		}
		f.reads = append(f.reads, r)
		return nil, nil
	case u.script == "" && strings.HasPrefix(u.line.args[0], "FLUSH"):
		f.store.write(u.line)
		return nil, k.loses(i, f, step)
	case u.script == "":
		if changes(u.line) && !f.store.write(u.line) {
			return nil, fmt.Errorf("what does this do?")
		}
		return nil, nil
	case u.script == "admit":
		return k.admitted(i, f, u)
	}
	all, known := u.requests()
	changed := false
	for _, l := range u.calls {
		changed = changed || changes(l)
	}
	switch {
	case !changed:
		return nil, nil
	case !known: // of an operator, or of an admission
		if u.script == "notice" {
			f.store.repl = u.arg(0) // it may have followed another server since
		}
		return nil, u.apply(f.store)
	}
	// An extend proves that its holder has finished.
	for _, q := range all {
		n := k.named(q.lease)
		if n == nil || q.op != trace.Extend {
			continue
		}
		h := k.holder(q.holder)
		if q.token == 0 {
			continue
		}
		if n.finished[h] == 0 {
			if err := n.Do("finish", h, trace.Any, q.token); err != nil {
				return unpromised{err, n, h, q.token}, nil
			}
			n.finished[h] = q.token
		}
		if had := n.finished[h]; had != q.token {
			return nil, fmt.Errorf("holder A%d tells the token %d, and has %d", h, q.token, had)
		}
		if r := n.round(h, q.shares); !n.rounds[r] {
			n.rounds[r] = true
			if err := n.Starts(r); err != nil {
				return nil, err
			}
		}
	}
	return nil, k.serve(i, f, u, all)
}

// serve is a script with requests.
func (k *checker) serve(i int, f *follower, u *unit, all []request) error {
	moved := k.MovedClock != nil && k.MovedClock(i)
	for _, q := range all {
		if e, has := f.store.leases[q.lease]; has && !u.there(q.lease, e, moved) {
			delete(f.store.leases, q.lease)
		}
	}
	before := f.store.clone()
	for _, q := range all {
		if e, has := before.leases[q.lease]; has {
			before.leases[q.lease] = u.left(&q, e, moved)
		}
	}
	if err := u.apply(f.store); err != nil {
		return err
	}
	for _, q := range all {
		n := k.named(q.lease)
		if n == nil {
			continue
		}
		known, _, _ := strings.Cut(q.known, "/") // how many replicas there are may follow
		d := trace.Served{Node: i, Op: q.op, Reads: q.shares, Token: q.number, Counts: known == "" || known == f.store.repl,
			Before: k.see(before, n), After: k.see(f.store, n)}
		touched, raised := false, false
		for _, l := range u.calls {
			touched = touched || changes(l) && l.args[1] == q.lease
			raised = raised || l.args[0] == "HSET" && l.args[1] == registers
		}
		if d.Holder = k.holder(q.holder); q.op == trace.Force {
			d.Holder = k.holder("operator of " + n.key)
		}
		had, own := leaseOf(d.Before, d.Holder), leaseOf(d.After, d.Holder)
		switch q.op {
		case trace.Acquire:
			// One that comes to share the name moves no register where others share it.
			if d.Granted = touched && own != nil && (raised || q.shares && had == nil); d.Granted {
				d.Answer = own.Origin
			}
		case trace.Confirm:
			d.Granted = raised
		case trace.Extend:
			if d.Granted = touched && own != nil; d.Granted {
				d.Answer = own.Origin
			}
			d.Rounds = []uint64{n.round(d.Holder, q.shares)}
		case trace.Force:
			d.Granted, d.Answer = raised, d.After.Register
		}
		if (q.op == trace.Acquire || q.op == trace.Force) && !n.Begun(d.Holder) {
			if err := n.begin(d.Holder, &q); err != nil {
				return err
			}
		}
		if err := n.Serve(&d); err != nil {
			return err
		}
		n.finish(d.Holder, d.Answer)
		n.finish(d.Holder, q.number)
		for _, l := range d.After.Leases {
			n.finish(l.Holder, l.Origin)
		}
	}
	return nil
}

// leaseOf returns the lease that a holder has, nil if it has none.
func leaseOf(x *trace.Node, holder uint64) *trace.Lease {
	if at := slices.IndexFunc(x.Leases, func(l trace.Lease) bool { return l.Holder == holder }); at >= 0 {
		return &x.Leases[at]
	}
	return nil
}

// begins is a server that is heard from now on, as it was not before, or not for a while.
func (k *checker) begins(i int, f *follower, now *store, step int) error {
	had := f.store
	f.store = now
	f.ended = f.ended || had != nil && now.run != had.run
	switch {
	case had == nil, now.remembers(had):
		return nil
	case now.run == had.run:
		k.untied = fmt.Sprintf("server %d was not heard for a while", i+1)
		return nil
	case k.Durable && now.ahead(had):
		k.untied = fmt.Sprintf("server %d, which writes everything to its disk, has more after a restart than was heard", i+1)
		return nil
	}
	err := k.loses(i, f, step)
	if err != nil && now.ahead(had) {
		k.untied, err = fmt.Sprintf("server %d has more after a restart than was heard", i+1), nil
	}
	return err
}

// loses is a server with another memory.
func (k *checker) loses(i int, f *follower, step int) error {
	f.lost, f.since, f.reads = true, step, nil
	k.lost++
	for _, n := range k.names {
		if err := n.Lost(i, k.see(f.store, n)); err != nil {
			return err
		}
	}
	return nil
}

// admitted is a server that votes from now on, if its registers were rebuilt by what enough others
// have.
func (k *checker) admitted(i int, f *follower, u *unit) (waits, err error) {
	after := f.store.clone()
	marks := func(l line) bool { return l.is("HSETNX", registers) }
	if err := u.apply(after); err != nil || !slices.ContainsFunc(u.calls, marks) {
		return nil, err // it was not what the client had found any more
	}
	after.repl = u.arg(0)
	for key, e := range after.leases {
		if after.leases[key] = e.until(u.line.at); u.line.at >= e.ends {
			delete(after.leases, key)
		}
	}
	if !f.lost {
		f.store = after
		return nil, nil
	}
	out := 0
	for _, other := range k.nodes {
		out += map[bool]int{true: 1}[other.lost]
	}
	if out > len(k.nodes)/2 {
		k.untied = "a majority had lost its memory: the model has no such admission"
		return nil, nil
	}
	var reads []read // the least of each of the others that the client can have read: nothing past what it wrote
	for w, other := range k.nodes {
		at := slices.IndexFunc(other.reads, func(r read) bool {
			for j, of := range r.of {
				if of.Out || of.Register > after.register(k.names[j].stripe) {
					return false
				}
			}
			return r.step > f.since
		})
		if w != i && at >= 0 {
			reads = append(reads, other.reads[at])
		}
	}
	if need := len(k.nodes) - len(k.nodes)/2; len(reads) < need {
		return fmt.Errorf("it is admitted by the registers of %d others, and %d are needed", len(reads), need), nil
	}
	for j, n := range k.names {
		var readings []trace.Reading
		for _, r := range reads {
			readings = append(readings, r.of[j])
		}
		if err := n.Admitted(i, readings, k.see(after, n)); err != nil {
			return nil, err
		}
	}
	f.store, f.lost = after, false
	k.admits++
	return nil, nil
}
