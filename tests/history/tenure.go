package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// tenure is one acquisition: what was asked for, and what came of it. A time of
// 0 stands for something that did not happen, or is not known to have.
type tenure struct {
	name       string
	client, op int
	asked      int64
	start      int64 // when its client is known to have it
	token      uint64
	shared     bool  // it was asked for to be shared
	shares     int64 // when it began to let others share the name: asked, if shared
	downgraded int64 // when it is known that they may
	until      int64 // the latest that its client has claimed
	ended      int64
	release    int64
	released   int64
	clean      bool // it was released, and had been held up to then
	failed     bool
	extending  int   // calls that have not returned
	extendAt   int64 // when the first of them began
}

func (t *tenure) String() string {
	if t.token == 0 {
		return fmt.Sprintf("client %d (op %d)", t.client, t.op)
	}
	return fmt.Sprintf("client %d (op %d, token %d)", t.client, t.op, t.token)
}

// id names the tenure to the checkers: client 3's second is "attempt 3000002".
func (t *tenure) id() int { return t.client*1_000_000 + t.op }

// end returns until when its client believes in it.
func (t *tenure) end() int64 {
	end := t.until
	for _, over := range []int64{t.release, t.ended} {
		if over != 0 {
			end = min(end, over)
		}
	}
	return max(end, t.start)
}

// expires returns when a tenure ends at the earliest that was not released cleanly.
func (t *tenure) expires() int64 {
	if t.until == 0 {
		return t.asked // its client never said until when
	}
	return t.end()
}

// sharedWith reports whether a later one of the same name may be held beside it.
func (t *tenure) sharedWith(later *tenure) bool {
	return later.shared && t.shares != 0 && t.shares <= later.start
}

// record is a history whose events were found to fit together.
type record struct {
	*History
	begin, quiet, end int64
	tenures           []*tenure     // those that began, in the order of start
	of                []*tenure     // by event; nil for those of none
	began             map[int]int64 // by event: when the extension began that it ends
	unknown           int           // acquisitions of unknown outcome
	faults            faults
}

type attempt struct{ client, op int }

// newRecord returns an error if an event says something impossible. A history that was damaged or
// is incomplete must not pass for a good one.
func newRecord(h *History) (*record, error) {
	n := len(h.Events)
	if n == 0 || h.Events[n-1].Kind != End {
		return nil, fmt.Errorf("the last event is not %q: the run was cut short", End)
	}
	r := &record{
		History: h,
		begin:   h.Events[0].At,
		end:     h.Events[n-1].At,
		of:      make([]*tenure, n),
		began:   make(map[int]int64),
	}
	attempts := make(map[attempt]*tenure)
	for i, e := range h.Events {
		if err := r.add(i, e, attempts); err != nil {
			return nil, fmt.Errorf("event %d (%s): %w", i+1, e.Kind, err)
		}
	}
	if r.quiet == 0 {
		return nil, fmt.Errorf("there is no event %q", Quiet)
	}
	for _, t := range attempts {
		if t.start == 0 && !t.failed {
			r.unknown++
		}
	}
	r.faults = newFaults(h.Events, r.quiet)
	return r, nil
}

// byToken returns the tenures of a name in the order of their tokens.
func (r *record) byToken(name string) []*tenure {
	of := slices.DeleteFunc(slices.Clone(r.tenures), func(t *tenure) bool { return t.name != name })
	slices.SortStableFunc(of, func(a, b *tenure) int { return cmp.Compare(a.token, b.token) })
	return of
}

func (r *record) add(i int, e Event, attempts map[attempt]*tenure) error {
	if e.At <= 0 || i > 0 && e.At < r.Events[i-1].At {
		return fmt.Errorf("the time %d is out of order", e.At)
	}
	switch e.Kind {
	case Fault, Healed:
		if e.Fault == "" {
			return fmt.Errorf("it does not say which fault")
		}
		return nil
	case Quiet:
		if r.quiet != 0 {
			return fmt.Errorf("it is the second")
		}
		r.quiet = e.At
		return nil
	case Closed, Leftover:
		return nil
	case Missed, Absent:
		if e.Client <= 0 || e.Kind == Missed && (e.Node <= 0 || e.Node > r.Header.Nodes) {
			return fmt.Errorf("it does not say which client, or which node")
		}
		return nil
	case End:
		if i != len(r.Events)-1 {
			return fmt.Errorf("it is not the last")
		}
		return nil
	}
	if !slices.Contains(r.Header.Names, e.Name) {
		return fmt.Errorf("the header does not have the name %q", e.Name)
	}
	if e.Kind == Follows {
		if e.Client <= 0 {
			return errors.New("it does not say which client")
		}
		return nil
	}
	if e.Client <= 0 || e.Op <= 0 {
		return fmt.Errorf("it does not say which client and op")
	}
	key := attempt{e.Client, e.Op}
	t := attempts[key]
	if e.Kind == Acquire {
		if t != nil {
			return fmt.Errorf("%v has begun before", t)
		}
		t = &tenure{name: e.Name, client: e.Client, op: e.Op, asked: e.At, shared: e.Shared}
		if e.Shared {
			t.shares, t.downgraded = e.At, e.At
		}
		attempts[key], r.of[i] = t, t
		return nil
	}
	if t == nil || t.name != e.Name {
		return fmt.Errorf("client %d (op %d) did not ask for %q", e.Client, e.Op, e.Name)
	}
	r.of[i] = t
	return r.advance(i, e, t)
}

// advance is told of an event of a tenure.
func (r *record) advance(i int, e Event, t *tenure) error {
	used := e.Kind == ReadValue || e.Kind == Wrote || e.Kind == Refused
	switch {
	case t.failed:
		return fmt.Errorf("%v had failed", t)
	case e.Kind == Acquired && t.start != 0:
		return fmt.Errorf("%v has it already", t)
	case e.Kind == Acquired || used && t.start == 0:
		// A client that was killed before it could say so has acquired the lock
		// for certain if its token was used.
		if r.Header.Tokens() && e.Token == 0 {
			return fmt.Errorf("it has no token")
		}
		t.start, t.token = e.At, e.Token
		r.tenures = append(r.tenures, t)
	case e.Kind == Failed:
		if t.start != 0 {
			return fmt.Errorf("%v has it", t)
		}
		t.failed = true
		return nil
	case t.start == 0:
		return fmt.Errorf("%v has not acquired it", t)
	}
	if e.Token != 0 && e.Token != t.token || used && e.Token != t.token {
		return fmt.Errorf("%v does not have the token %d", t, e.Token)
	}
	if e.Until > e.At {
		t.until = max(t.until, e.Until)
	}
	switch e.Kind {
	case Extend:
		if t.extending == 0 {
			t.extendAt = e.At
		}
		t.extending++
	case Extended, ExtendFailed:
		if t.extending == 0 {
			return fmt.Errorf("%v did not begin an extension", t)
		}
		t.extending--
		r.began[i] = t.extendAt
	case Ended:
		if t.ended == 0 {
			t.ended = e.At
		}
	case Wrote:
		if t.shares != 0 {
			return fmt.Errorf("%v shares the name, and is not to write", t)
		}
	case Downgrade:
		if t.shares == 0 {
			t.shares = e.At
		}
	case Downgraded:
		if t.shares == 0 {
			return fmt.Errorf("%v did not begin to share it", t)
		}
		if e.Text == "" && t.downgraded == 0 {
			t.downgraded = e.At
		}
	case Release:
		if t.release == 0 {
			t.release = e.At
		}
	case Released:
		if t.release == 0 {
			return fmt.Errorf("%v did not begin to release it", t)
		}
		t.released, t.clean = e.At, e.Text == ""
	}
	return nil
}
