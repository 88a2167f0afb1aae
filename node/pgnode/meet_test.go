package pgnode

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// ofOneStripe are the names that transactions which meet are about.
var ofOneStripe = append([]string{oneName}, besides(oneName, 3)...)

// An operation meets a transaction of others on names of its stripe. That ends while the operation
// waits for it, by a commit or not, and some time may pass. All is as package rule has it of one
// operation after the other. Sweeps change nothing.
func TestOperationsOfAStripeMeet(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	var waited, usual int
	for seed := range uint64(3) {
		c := newComparison(t, server.DSN(), seed)
		c.n.swept.Store(time.Now().Add(time.Hour).UnixMilli())
		c.do(node.Request{Op: node.Acquire, Name: oneName, Holder: "h1", TTL: time.Second}) // so that it votes
		for range 250 {
			switch c.random.IntN(8) {
			case 0:
				c.pass(time.Duration(c.random.IntN(1500)) * time.Millisecond)
				if c.random.IntN(8) == 0 {
					c.wait(rule.QueueExpiry)
				}
			case 1:
				c.listen(clients[c.random.IntN(3)])
			default:
				w, u := c.meet()
				waited, usual = waited+w, usual+u
			}
		}
	}
	if waited < 100 || usual < 100 {
		t.Errorf("%d operations waited, and %d were begun by a usual statement", waited, usual)
	}
}

// meet has an operation meet a transaction. It returns whether it waited, and was a usual one.
func (c *comparison) meet() (waited, usual int) {
	c.t.Helper()
	tx, pid := session(c.t, c.n)
	before, commits := copied(c.memory), c.random.IntN(6) > 0
	var notify []string
	for range 1 + c.random.IntN(3) {
		if c.random.IntN(6) == 0 {
			runs(c.t, tx, c.n, fmt.Sprintf("SELECT fenlock.sweep(%d)", 2+c.random.IntN(2)))
			c.log = append(c.log, "they sweep")
			continue
		}
		r := c.draw()
		wants, told := c.apply(r)
		notify = append(notify, told...)
		var s served
		err := tx.QueryRow(c.n.sql.serve, int(r.Op), []byte(r.Name), node.Stripe(r.Name), []byte(r.Holder),
			r.TTL.Milliseconds(), int64(r.Token), int64(r.OwnToken), []byte(r.Place.Waiter), r.Place.Stamp, c.n.ourTerms(),
			r.Shared, int64(r.Next)).Scan(&s.status, &s.register, &s.heldBy, &s.remaining, &s.ahead, &s.clock, &s.store,
			&s.quiet, &s.given, &s.inside)
		if err != nil {
			c.t.Fatal(err)
		}
		got, err := c.n.served(r, &s)
		c.log = append(c.log, fmt.Sprintf("they, at %v: %v %+v %q: %+v", c.now, r.Op, r, string(r.Holder), got))
		if err != nil || got != wants {
			c.fail(fmt.Sprintf("%+v, %v; want %+v", got, err, wants))
		}
	}
	end := tx.Commit
	if !commits {
		c.memory, notify, end = before, nil, tx.Rollback
	}
	r := c.draw()
	if stripe := node.Stripe(r.Name); c.random.IntN(2) == 0 {
		c.n.seen[stripe].Or(c.n.bit(r.Name))
		c.n.contended[stripe].Store(false)
	}
	if c.n.usual(r) {
		usual = 1
	}
	began := c.now
	var got node.Answer
	done := make(chan error, 1)
	go func() {
		a, err := c.n.serve(context.Background(), r)
		got = a
		done <- err
	}()
	if waitFor(c.t, c.n.db, pid, done); len(done) == 0 {
		waited = 1
		if c.random.IntN(3) == 0 {
			c.pass(time.Duration(c.random.IntN(2500)) * time.Millisecond)
		}
	}
	c.log = append(c.log, fmt.Sprintf("at %v, they commit %v: %v %+v %q", c.now, commits, r.Op, r, string(r.Holder)))
	if err := end(); err != nil {
		c.t.Fatal(err)
	}
	if err := <-done; err != nil {
		c.fail(err.Error())
	}
	// What waited for a row that did not change is of when it began.
	told, now, memory := c.told(), c.now, c.memory
	var wrong string
	for _, at := range []time.Duration{now, began} {
		c.now, c.memory = at, copied(memory)
		wants, also := c.apply(r)
		also = append(also, notify...)
		slices.Sort(also)
		c.now = now
		if wrong = c.differs(); got == wants && slices.Equal(told, also) && wrong == "" {
			return waited, usual
		}
		wrong = fmt.Sprintf("%+v, and %q are told; want %+v, %q\n%s", got, told, wants, also, wrong)
	}
	c.fail(wrong)
	return
}

// pass lets time pass, until no queue is in its last second: it may have ended then, or not.
func (c *comparison) pass(d time.Duration) {
	for c.t.Helper(); d > 0; {
		c.wait(d)
		d = 0
		for _, queue := range c.memory.Queues {
			if left := queue.Expires - c.now; left > 0 && left <= time.Second {
				d = left
			}
		}
	}
}

func (c *comparison) fail(what string) {
	c.t.Helper()
	c.t.Fatalf("%s\nThe last operations:\n%s", what, strings.Join(c.log[max(0, len(c.log)-16):], "\n"))
}

// draw returns a request about a name of the stripe, often of its holder.
func (c *comparison) draw() node.Request {
	random := c.random
	r := node.Request{Name: ofOneStripe[max(0, random.IntN(len(ofOneStripe)+2)-2)], Shared: random.IntN(5) == 0,
		Holder: node.Holder(fmt.Sprint("h", random.IntN(3), "\xff\\:")),
		TTL:    time.Duration(1+random.IntN(3000)) * time.Millisecond, Token: fence.Token(random.IntN(50))}
	if random.IntN(3) == 0 {
		number := map[bool]string{true: "0", false: "2"}[r.Shared]
		r.Place = node.Place{Waiter: fmt.Sprint(clients[random.IntN(3)], ":", number, ":läbel"),
			Stamp: int64(1 + random.IntN(4))}
	}
	has := c.memory.Begin(r.Name, c.now, nil)
	if h := has.Holder; random.IntN(2) == 0 && h != "" && !h.Shared() && !h.Reserves() {
		r.Holder = h
	}
	if random.IntN(3) == 0 {
		r.Token = has.Register + fence.Token(random.IntN(3))
	}
	r.OwnToken = fence.Token(random.IntN(3))
	r.Op = []node.Op{node.Acquire, node.Acquire, node.Acquire, node.Release, node.Release, node.Extend, node.Extend,
		node.Confirm, node.ForceRelease}[random.IntN(9)]
	if r.Op == node.Release && random.IntN(2) == 0 {
		r.Next, r.Place.Stamp = fence.Token(1+random.IntN(80)), 0
	}
	return r
}

// apply carries out a request in memory.
func (c *comparison) apply(r node.Request) (node.Answer, []string) {
	o := c.memory.Begin(r.Name, c.now, func(waiter string) bool { return c.listens[waiter[:32]] })
	wants, notify := rule.ServeShared(&o.Entry, o, c.now, r)
	o.Commit()
	if e := c.without(o.Entry); wants.Status == node.Held {
		wants.HeldBy, wants.Holder, wants.Slots = e.Holder.Label(), e.Holder.Fingerprint(), e.Holder.Slots()
	}
	return wants, notify
}

// differs returns what the tables have of the names that the memory has not, and what no operation
// may leave.
func (c *comparison) differs() (all string) {
	c.t.Helper()
	for _, name := range ofOneStripe {
		o := c.memory.Begin(name, c.now, nil)
		e := c.without(o.Entry)
		stored, queued := c.stored(name)
		stored = c.without(stored)
		same := stored.Register == o.Register && slices.Equal(queued, o.Waiters) && stored.Leased(c.now) == e.Leased(c.now)
		if same && e.Holder.Shared() && e.Leased(c.now) { // the epoch is settled by the next request
			_, a, _ := strings.Cut(string(stored.Holder), "\n")
			_, b, _ := strings.Cut(string(e.Holder), "\n")
			same = a == b && stored.Expires == e.Expires
		} else if same && e.Leased(c.now) {
			same = stored.Holder == e.Holder && stored.Expires == e.Expires &&
				(e.Holder.Reserves() || stored.Origin == e.Origin && stored.Token == e.Token)
		}
		if !same {
			all += fmt.Sprintf("%q: in memory %+v %q %v, in the tables %+v %q %v\n", name, e, string(e.Holder), o.Waiters,
				stored, string(stored.Holder), queued)
		}
	}
	var broken string
	if err := c.n.db.QueryRow(inSchema(unsound, c.n.schema)).Scan(&broken); err != nil {
		c.t.Fatal(err)
	}
	return all + broken
}

// unsound says which of what has to be true of the tables is not.
const unsound = `SELECT concat_ws(', ',
	(SELECT 'a name has two leases' WHERE EXISTS (SELECT FROM fenlock.held GROUP BY name HAVING count(*) > 1)),
	(SELECT 'a stripe hides a lease' WHERE EXISTS (SELECT FROM fenlock.leases JOIN fenlock.current AS c USING (stripe)
		WHERE NOT c.others)),
	(SELECT 'a queue is quiet' WHERE EXISTS (SELECT FROM fenlock.queues AS q LEFT JOIN fenlock.leases AS l USING (name)
		LEFT JOIN fenlock.current AS c USING (name) WHERE coalesce(l.quiet, c.quiet, true))),
	(SELECT 'a register was not reserved' WHERE EXISTS (SELECT FROM fenlock.current AS c LEFT JOIN fenlock.registers AS g
		USING (stripe) WHERE c.register > c.reserved OR c.reserved > coalesce(g.reserved, 0))))`

// copied returns a copy of what a node remembers.
func copied(s rule.Store) rule.Store {
	s.Leases, s.Registers, s.Queues = maps.Clone(s.Leases), maps.Clone(s.Registers), maps.Clone(s.Queues)
	for name, queue := range s.Queues {
		queue.Waiters = slices.Clone(queue.Waiters)
		s.Queues[name] = queue
	}
	return s
}
