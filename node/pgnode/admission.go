package pgnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	if err := n.admission.Join(g); err != nil {
		return n.errorf("join", fmt.Errorf("%w: %w", node.ErrInvalid, err))
	}
	terms := textOf(n.admission.Terms())
	n.terms.CompareAndSwap(nil, &terms)
	return nil
}

// Admission returns what has the node admitted, for the other nodes of its group.
func (n *Node) Admission() *admit.Admission { return n.admission }

// single stands for the member of a group of one: it is this schema, by whatever name a client
// reaches it.
const single = "alone"

// textOf returns terms as they are recorded. Operations compare the text.
func textOf(t admit.Terms) string {
	members := t.Members
	if !strings.Contains(members, " ") {
		members = single
	}
	return strconv.FormatInt(t.MaxTTL.Milliseconds(), 10) + " " + members
}

// termsOf is the inverse of textOf. Nothing recorded is no terms.
func termsOf(text string) (admit.Terms, error) {
	if text == "" {
		return admit.Terms{}, nil
	}
	first, members, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(first, 10, 64)
	if err != nil || ms < 1 || ms > math.MaxInt64/int64(time.Millisecond) || members == "" {
		return admit.Terms{}, fmt.Errorf("%w: the group's terms in the table meta are %.60q, which no fenlock wrote",
			node.ErrMisconfigured, text)
	}
	return admit.Terms{MaxTTL: time.Duration(ms) * time.Millisecond, Members: members}, nil
}

// admission is what package admit asks the database.
type admission struct{ *Node }

// seen is what note and mark compare: the row of memory, and the terms.
type seen struct {
	memory string // "": there is no row
	xmin   int64
	terms  string
}

// row is a row of the statement facts.
type row struct {
	seen
	clock, since                       int64 // in microseconds
	format, store, granted             string
	valid, fresh, admitted, used, kind bool // kind: the tables are logged and unlogged as they should be
	elsewhere                          bool // another database was admitted last
	empty                              string
}

// columns is where a row is scanned to.
func (r *row) columns() []any {
	return []any{&r.clock, &r.format, &r.kind, &r.store, &r.terms, &r.used, &r.elsewhere,
		&r.memory, &r.xmin, &r.valid, &r.fresh, &r.admitted, &r.since, &r.granted, &r.empty}
}

// facts is what a row says.
func (n *Node) facts(r row) (f admit.Facts, err error) {
	if r.format != format {
		return f, formatError(n.schema, r.format)
	}
	if !r.kind {
		return f, fmt.Errorf("%w: the table memory has to be unlogged, and meta and registers logged: after a crash it would not be known what was forgotten (ALTER TABLE … SET UNLOGGED for memory, SET LOGGED for meta and registers)", node.ErrMisconfigured)
	}
	if r.valid && r.admitted && r.granted != r.terms {
		return f, fmt.Errorf(
			"%w: the tables meta and memory have the terms %.60q and %.60q recorded: one of them was changed by something else", node.ErrMisconfigured, r.terms, r.granted)
	}
	f.Terms, err = termsOf(r.terms)
	f.Server, f.Memory = n.serverOf(r.store), r.memory
	f.Votes, f.Marked = r.valid && r.admitted, r.admitted
	f.Recorded = r.terms != "" || r.used || r.admitted || !r.valid || !r.fresh
	// A wait that has not begun yet, because the clock was set back, is begun anew: it would last
	// until then.
	f.Counted = r.valid && r.since <= r.clock
	f.Out = time.Duration(r.clock-r.since) * time.Microsecond
	switch f.Cause = node.Restarted; {
	case r.terms == "" && !r.used:
		f.Cause = node.Unused
	case r.elsewhere:
		f.Cause = node.Replaced
	}
	f.Untouched, f.Empty = !r.admitted, admit.MemoriesOf(r.empty)
	f.Logged = f.Cause == node.Restarted
	f.State = r.seen
	return f, err
}

// serverOf returns what a store is called, and the node where the server must not say which it is.
func (n *Node) serverOf(store string) string {
	if strings.HasPrefix(store, " ") {
		return n.member + store
	}
	return store
}

// Facts implements admit.Store. A schema that was just made is out for a time that counts from
// then: its leases are those of what was there before.
func (n admission) Facts(ctx context.Context) (admit.Facts, error) {
	var r row
	err := n.query(ctx, n.sql.facts, nil, r.columns()...)
	if err != nil {
		return admit.Facts{}, n.errorf("admission", n.explain(ctx, err))
	}
	f, err := n.facts(r)
	if err == nil && n.admission.Joined() && r.terms != "" && f.Terms.Check(n.admission.Terms()) == nil {
		n.terms.Store(&r.terms) // however they say it
	}
	return f, n.errorf("admission", err)
}

// Note implements admit.Store.
func (n admission) Note(ctx context.Context, f admit.Facts) (done bool, err error) {
	s := f.State.(seen)
	return n.step(ctx, n.sql.note, s.memory, s.xmin, rand.Text())
}

// Raise implements admit.Store.
func (n admission) Raise(ctx context.Context, f admit.Facts, tokens map[int]fence.Token) error {
	var stripes, numbers []string
	for stripe, token := range tokens {
		stripes = append(stripes, strconv.Itoa(stripe))
		numbers = append(numbers, strconv.FormatUint(uint64(token), 10))
	}
	done, err := n.step(ctx, n.sql.raise, f.State.(seen).memory, "{"+strings.Join(stripes, ",")+"}",
		"{"+strings.Join(numbers, ",")+"}")
	if err == nil && !done {
		err = n.errorf("admission", errors.New("the database is another one than it was a moment ago"))
	}
	return err
}

// Mark implements admit.Store.
func (n admission) Mark(ctx context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	s := f.State.(seen)
	return n.step(ctx, n.sql.mark, s.memory, s.terms, textOf(own), admit.TextOfMemories(empty))
}

// step carries out a function of the schema that reports whether it did anything.
func (n admission) step(ctx context.Context, text string, args ...any) (done bool, err error) {
	for range tries {
		if err = n.query(ctx, text, args, &done); err == nil || !again(err) {
			break
		}
	}
	if err != nil {
		return false, n.errorf("admission", err)
	}
	return done, nil
}

// Registers implements node.Rejoiner.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	var r node.Registers
	err := n.look(ctx, "registers", func(ctx context.Context) (err error) {
		if r, err = n.registers(ctx); err != nil || r.Memory != "" {
			return err
		}
		// A memory has a name only from when its loss is noted.
		if _, err = n.admission.Noted(ctx); err == nil {
			r, err = n.registers(ctx)
		}
		return err
	})
	return r, err
}

// registers reads them in one statement. The memory of a database that was not noted is "".
func (n *Node) registers(ctx context.Context) (node.Registers, error) {
	r := node.Registers{Tokens: make(map[int]fence.Token)}
	err := n.each(ctx, n.sql.registers, nil, func(scan func(...any) error) error {
		var of row
		var stripe int
		var token int64
		if err := scan(append(of.columns(), &stripe, &token)...); err != nil {
			return err
		}
		if stripe >= 0 && stripe < node.Stripes && token > 0 {
			r.Tokens[stripe] = fence.Token(token)
		}
		f, err := n.facts(of)
		r.Server, r.Admitted, r.MaxTTL, r.Members, r.Empty = f.Server, f.Votes, f.Terms.MaxTTL, f.Terms.Members, f.Empty
		if of.valid {
			r.Memory = f.Memory
		}
		return err
	})
	if err != nil {
		return node.Registers{}, err
	}
	return r, nil
}

var _ admit.Store = admission{}
