package pgnode

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// ofTheTest is a clock that the test sets, in place of the server's.
const ofTheTest = `DROP TABLE IF EXISTS test_clock; CREATE TABLE test_clock (at bigint NOT NULL); INSERT INTO test_clock VALUES (0);
CREATE OR REPLACE FUNCTION test_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT to_timestamp(at / 1000000.0) FROM public.test_clock';
`

// The functions of the schema do what package rule does, in any order of requests about one name.
// All fields of the answers are compared, and all that is left in the tables. Some requests are
// about another name, which may have the row of the stripe.
func TestSchemaFollowsTheRules(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	kinds := map[string]int{}
	for seed := range uint64(8) {
		c := newComparison(t, server.DSN(), seed)
		for range 900 {
			c.step()
		}
		for kind, count := range c.kinds {
			kinds[kind] += count
		}
	}
	for _, seen := range []string{
		"acquire, shared true: granted, 2 told", "acquire, shared true: held, 1 told", "acquire, shared false: held, 0 told",
		"extend, shared true: granted, 1 told",
		"extend, shared true: lost, 0 told", "confirm, shared true: outrun, 0 told", "release, shared true: granted, 2 told",
		"release, shared false: granted, 1 told", "given", "held by what is given to it", "given back",
		"two leases in a stripe",
	} {
		if kinds[seen] == 0 {
			t.Errorf("never seen: %s; there were %v", seen, kinds)
		}
	}
}

// A name is shared by so many and no more; a waiter after them is told when one has left.
func TestSharedByAsManyAsTheRulesAllow(t *testing.T) {
	t.Parallel()
	c := newComparison(t, testserver.StartPostgres(t).DSN(), 0)
	c.listen(clients[0])
	reader := func(i int) node.Request {
		return node.Request{Op: node.Acquire, Name: oneName, Holder: node.Holder(fmt.Sprintf("%032x:r%d", i, i)),
			TTL: time.Minute, Shared: true,
			Place: node.Place{Waiter: fmt.Sprint(clients[0], ":0", i), Stamp: int64(i + 1)}}
	}
	for i := range rule.MaxReaders {
		want(t, node.Granted)(c.do(reader(i)))
	}
	for i := range 2 {
		want(t, node.Held)(c.do(reader(rule.MaxReaders + i)))
	}
	err := c.n.List(context.Background(), "", func(l node.Lease) bool {
		if !l.Shared || l.Label != "r0 and 255 more that share it" {
			t.Errorf("it is listed as %+v", l)
		}
		return true
	})
	if err != nil {
		t.Error(err)
	}
	for i := range 2 {
		r := as(node.Release, reader(i))
		r.Place.Stamp = 0
		want(t, node.Granted)(c.do(r))
	}
	if seen := c.kinds["release, shared true: granted, 1 told"]; seen != 2 {
		t.Errorf("%d were told", seen)
	}
}

// newComparison makes a schema whose clock the test sets.
func newComparison(t *testing.T, dsn string, seed uint64) *comparison {
	admin := open(t, dsn)
	name := fmt.Sprint("rules_", seed)
	if _, err := admin.db.Exec(ofTheTest + strings.ReplaceAll(Schema(name), "clock_timestamp()",
		"public.test_now()")); err != nil {
		t.Fatal(err)
	}
	c := &comparison{t: t, n: alone(t, in(dsn, name)), random: rand.New(rand.NewPCG(seed, 1)), listens: map[string]bool{},
		kinds: map[string]int{}}
	for _, usual := range []*string{&c.n.sql.take, &c.n.sql.extend, &c.n.sql.release} {
		*usual = strings.ReplaceAll(*usual, "pg_catalog.clock_timestamp()", "public.test_now()")
	}
	c.wait(time.Hour)
	return c
}

// comparison plays one history in the tables and in memory.
type comparison struct {
	t       *testing.T
	n       *Node
	random  *rand.Rand
	now     time.Duration
	listens map[string]bool
	memory  rule.Store
	kinds   map[string]int
	log     []string
}

// oneName is what the requests are about, and neighbour another name of its stripe.
const oneName = "a\x00/é"

var neighbour = func() string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("n", i); node.Stripe(name) == node.Stripe(oneName) {
			return name
		}
	}
}()

var clients = []string{strings.Repeat("a", 32), strings.Repeat("b", 32), strings.Repeat("c", 32)}

// slotted have one of a number of slots, or look as if they had.
var slotted = []node.Holder{"h1\xff\\:/3:", node.Holder(clients[0] + "@1/3:\xff\\:/4:"),
	node.Holder(clients[1] + "@1/3:"),
	node.Holder(clients[2] + "@123456/65535:x"), node.Holder(clients[2] + "@1/0:x")}

func (c *comparison) exec(text string, args ...any) {
	c.t.Helper()
	if _, err := c.n.db.Exec(inSchema(text, c.n.schema), args...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *comparison) wait(d time.Duration) {
	c.now += d
	c.exec(`UPDATE public.test_clock SET at = $1`, c.now.Microseconds())
}

func (c *comparison) step() {
	random := c.random
	shared := random.IntN(5) > 1
	number := []string{"1", "0"}[random.IntN(2)]
	if shared != (number == "0") {
		number = map[bool]string{true: "00", false: "2"}[shared]
	}
	p := node.Place{Waiter: fmt.Sprint(clients[random.IntN(3)], ":", number, ":läbel"), Stamp: int64(1 + random.IntN(4))}
	if random.IntN(8) == 0 {
		p.Waiter = ""
	}
	r := node.Request{Name: oneName, Holder: node.Holder(fmt.Sprint("h", random.IntN(4), "\xff\\:")), Place: p,
		Shared: shared,
		TTL:    time.Duration(1+random.IntN(3000)) * time.Millisecond, Token: fence.Token(random.IntN(50))}
	if random.IntN(4) == 0 {
		r.Holder = slotted[random.IntN(len(slotted))]
	}
	if random.IntN(2) == 0 {
		r.OwnToken = fence.Token(1 + random.IntN(3))
	}
	if random.IntN(8) == 0 { // as a waiter that was given the name, or that returns nothing
		r.Holder = []node.Holder{node.Given(p.Waiter, 0), c.memory.Begin(oneName, c.now, nil).Holder}[random.IntN(2)]
		if r.Holder == "" || r.Holder.Shared() || r.Holder.Reserves() || p.Waiter == "" {
			r.Holder = "h1"
		}
	}
	switch random.IntN(12) {
	case 0, 1, 2, 3:
		r.Op = node.Acquire
	case 4, 5, 6:
		r.Op = node.Release
		if random.IntN(2) == 0 {
			r.Next = fence.Token(1 + random.IntN(80))
		}
		if random.IntN(2) == 0 {
			r.Place.Stamp = 0
		}
		if random.IntN(4) == 0 {
			r.Holder = []node.Holder{"", node.SharedPrefix}[random.IntN(2)]
		}
	case 7, 8:
		r.Op = []node.Op{node.Confirm, node.Confirm, node.Extend, node.Extend, node.Extend, node.ForceRelease}[random.IntN(6)]
		if r.Op == node.Confirm && random.IntN(8) == 0 {
			r.Holder = node.SharedPrefix
		}
	case 9:
		c.wait(time.Duration(random.IntN(1200)) * time.Millisecond)
		if random.IntN(20) == 0 {
			c.wait(rule.QueueExpiry)
		}
		return
	case 10:
		c.listen(clients[random.IntN(3)])
		return
	case 11:
		if random.IntN(4) > 0 {
			return
		}
		for part := 2; part <= 3; part++ {
			c.exec(`SELECT fenlock.sweep($1)`, part)
		}
		return
	}
	if random.IntN(3) > 0 { // as if another client had come to the name
		c.n.contended[node.Stripe(oneName)].Store(random.IntN(2) == 0)
	}
	if random.IntN(8) == 0 {
		r.Name = neighbour
	}
	c.do(r)
}

// listen makes a client reachable, or not any more.
func (c *comparison) listen(client string) {
	c.t.Helper()
	if c.listens[client] = !c.listens[client]; c.listens[client] {
		c.exec(`INSERT INTO fenlock.listeners VALUES ($1, NULL, 9000000000000)`, []byte(client))
	} else {
		c.exec(`DELETE FROM fenlock.listeners WHERE client = $1`, []byte(client))
	}
}

// do carries out a request in both.
func (c *comparison) do(r node.Request) (node.Answer, error) {
	c.t.Helper()
	o := c.memory.Begin(r.Name, c.now, func(waiter string) bool { return c.listens[waiter[:32]] })
	before := o.Holder
	wants, notify := rule.ServeShared(&o.Entry, o, c.now, r)
	o.Commit()
	e := c.without(o.Entry)
	if wants.Status == node.Held {
		wants.HeldBy, wants.Holder, wants.Slots = e.Holder.Label(), e.Holder.Fingerprint(), e.Holder.Slots()
	}
	c.kinds[fmt.Sprintf("%v, shared %v: %v, %d told", r.Op, r.Shared, wants.Status, min(len(notify), 2))]++
	for _, text := range notify {
		if n, _ := node.ParseNotice(text); n.Number > 0 {
			c.kinds["given"]++
		}
	}
	if wants.Given > 0 {
		c.kinds["held by what is given to it"]++
	}
	if before.GivenTo(r.Place.Waiter) && before != r.Holder && e.Holder != before {
		c.kinds["given back"]++
	}
	slices.Sort(notify)
	got, err := c.n.Do(context.Background(), r)
	c.log = append(c.log, fmt.Sprintf("%v: %v %+v %q: %+v, %q", c.now, r.Op, r, string(r.Holder), got, string(e.Holder)))
	stored, queued := c.stored(r.Name)
	told := c.told()
	same := err == nil && got == wants && stored.Register == o.Register && slices.Equal(queued, o.Waiters) &&
		slices.Equal(told, notify) &&
		stored.Leased(c.now) == e.Leased(c.now)
	if e.Leased(c.now) {
		same = same && stored.Holder == e.Holder && stored.Expires == e.Expires &&
			(e.Holder.Reserves() || stored.Origin == e.Origin && stored.Token == e.Token)
	}
	shown, err := c.n.Inspect(context.Background(), r.Name)
	shown.Out = false // it is until it was asked to promise something
	same = same && err == nil && shown == e.Lease(r.Name, c.now)
	if !same {
		c.t.Fatalf("the memory says %+v, notify %q, %+v %q, %v; it is %v, %+v, %q, %+v %q, %v, %+v. The last operations:\n%s",
			wants, notify, e, string(e.Holder), o.Waiters, err, got, told, stored, string(stored.Holder), queued, shown,
			strings.Join(c.log[max(0, len(c.log)-12):], "\n"))
	}
	return got, err
}

// without returns the entry without holders whose share of the name has ended. Package rule removes
// them when another holder changes, and the tables with each request.
func (c *comparison) without(e rule.Entry) rule.Entry {
	if !e.Holder.Shared() {
		return e
	}
	lines := strings.Split(string(e.Holder), "\n")
	e.Holder = node.Holder(strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		text, _, sharer := strings.Cut(line, " ")
		expires, _ := strconv.ParseInt(text, 10, 64)
		return sharer && time.Duration(expires) <= c.now
	}), "\n"))
	return e
}

// stored reads what the tables have about a name.
func (c *comparison) stored(name string) (e rule.Entry, queue rule.Waiters) {
	c.t.Helper()
	var holder []byte
	var expires, origin, token, register, others int64
	err := c.n.db.QueryRow(inSchema(`SELECT l.holder, l.expires, l.origin, l.token, c.register, (SELECT count(*) FROM fenlock.leases) FROM fenlock.current AS c
		LEFT JOIN fenlock.held AS l ON l.name = $1 WHERE c.stripe = $2`, c.n.schema), []byte(name), node.Stripe(name)).
		Scan(&holder, orZero(&expires), orZero(&origin), orZero(&token), &register, &others)
	if err != nil {
		c.t.Fatal(err)
	}
	if others > 0 {
		c.kinds["two leases in a stripe"]++
	}
	sharers := c.sharers(name)
	if string(holder) == node.SharedPrefix {
		holder = fmt.Append(holder, origin, sharers)
		origin = 0
	} else if sharers != "" {
		c.t.Errorf("%q share what is leased to %q", sharers, holder)
	}
	e = rule.Entry{Holder: node.Holder(holder), Expires: time.Duration(expires) * time.Millisecond,
		Origin: fence.Token(origin), Token: fence.Token(token), Register: fence.Token(register)}
	err = c.n.each(context.Background(), inSchema(`SELECT w.waiter, w.stamp FROM fenlock.waiters AS w JOIN fenlock.queues AS q ON q.name = w.name
		WHERE w.name = $1 AND q.expires > $2 ORDER BY w.stamp, w.waiter`, c.n.schema), []any{[]byte(name), c.now.Milliseconds()}, func(scan func(...any) error) error {
		var waiter []byte
		var stamp int64
		err := scan(&waiter, &stamp)
		queue = append(queue, node.Place{Waiter: string(waiter), Stamp: stamp})
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return e, queue
}

// sharers returns the lines of package rule for those who share the name.
func (c *comparison) sharers(name string) (lines string) {
	c.t.Helper()
	err := c.n.each(context.Background(), inSchema(`SELECT x.holder, x.expires, x.origin, x.token FROM fenlock.readers AS x
		WHERE x.name = $1 ORDER BY x.holder`, c.n.schema), []any{[]byte(name)}, func(scan func(...any) error) error {
		var holder []byte
		var expires, origin, token int64
		err := scan(&holder, &expires, &origin, &token)
		lines += fmt.Sprintf("\n%d %d %d %s", time.Duration(expires)*time.Millisecond, origin, token, holder)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return lines
}

// told returns who was notified since the last time.
func (c *comparison) told() (waiters []string) {
	c.t.Helper()
	err := c.n.each(context.Background(), inSchema(`DELETE FROM fenlock.notices RETURNING waiter`, c.n.schema), nil,
		func(scan func(...any) error) error {
			var one []byte
			err := scan(&one)
			waiters = append(waiters, string(one))
			return err
		})
	if err != nil {
		c.t.Fatal(err)
	}
	slices.Sort(waiters)
	return waiters
}

// orZero scans NULL as 0.
func orZero(to *int64) *nullable { return (*nullable)(to) }

type nullable int64

func (n *nullable) Scan(from any) error {
	value, _ := from.(int64)
	*n = nullable(value)
	return nil
}
