package pgnode

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// ofTheTest is a clock that the test sets, in place of the server's.
const ofTheTest = `CREATE TABLE test_clock (at bigint NOT NULL); INSERT INTO test_clock VALUES (0);
CREATE FUNCTION test_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT to_timestamp(at / 1000000.0) FROM public.test_clock';`

// The functions of the schema do what package rule does, in any order of requests about
// one name: all fields of the answers, and all that is left in the tables.
func TestSchemaFollowsTheRules(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	admin := open(t, server.DSN())
	if _, err := admin.db.Exec(ofTheTest); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(4) {
		name := fmt.Sprint("rules_", seed)
		if _, err := admin.db.Exec(strings.ReplaceAll(Schema(name), "clock_timestamp()", "public.test_now()")); err != nil {
			t.Fatal(err)
		}
		c := &comparison{t: t, n: alone(t, in(server.DSN(), name)), random: rand.New(rand.NewPCG(seed, 1)), listens: map[string]bool{}}
		c.wait(time.Hour)
		for range 400 {
			c.step()
		}
	}
}

// comparison plays one history in the tables and in memory.
type comparison struct {
	t       *testing.T
	n       *Node
	random  *rand.Rand
	now     time.Duration
	listens map[string]bool
	memory  rule.Store
	log     []string
}

var clients = []string{strings.Repeat("a", 32), strings.Repeat("b", 32), strings.Repeat("c", 32)}

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
	const name = "a\x00/é"
	random := c.random
	p := node.Place{Waiter: fmt.Sprint(clients[random.IntN(3)], ":", random.IntN(2), ":läbel"), Stamp: int64(1 + random.IntN(4))}
	if random.IntN(8) == 0 {
		p.Waiter = ""
	}
	r := node.Request{Name: name, Holder: node.Holder(fmt.Sprint("h", random.IntN(3), "\xff:")), Place: p,
		TTL: time.Duration(1+random.IntN(3000)) * time.Millisecond, Token: fence.Token(random.IntN(50))}
	if random.IntN(2) == 0 {
		r.OwnToken = fence.Token(1 + random.IntN(3))
	}
	switch random.IntN(12) {
	case 0, 1, 2, 3:
		r.Op = node.Acquire
	case 4, 5, 6:
		r.Op = node.Release
		if random.IntN(2) == 0 {
			r.Place.Stamp = 0
		}
		if random.IntN(4) == 0 {
			r.Holder = ""
		}
	case 7, 8:
		r.Op = []node.Op{node.Confirm, node.Extend, node.ForceRelease}[random.IntN(3)]
	case 9:
		c.wait(time.Duration(random.IntN(1200)) * time.Millisecond)
		if random.IntN(20) == 0 {
			c.wait(rule.QueueExpiry)
		}
		return
	case 10:
		client := clients[random.IntN(3)]
		if c.listens[client] = !c.listens[client]; c.listens[client] {
			c.exec(`INSERT INTO fenlock.listeners VALUES ($1, NULL, 9000000000000)`, []byte(client))
		} else {
			c.exec(`DELETE FROM fenlock.listeners WHERE client = $1`, []byte(client))
		}
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
	o := c.memory.Begin(name, c.now, func(waiter string) bool { return c.listens[waiter[:32]] })
	wants, notify := rule.Serve(&o.Entry, o, c.now, r)
	o.Commit()
	got, err := c.n.Do(context.Background(), r)
	c.log = append(c.log, fmt.Sprintf("%v: %v %+v %q: %+v", c.now, r.Op, r, string(r.Holder), got))
	stored, queued := c.stored(name, o.QueueExpires)
	told := c.told()
	same := err == nil && got == wants && stored.Register == o.Register && slices.Equal(queued, o.Waiters) && told == notify &&
		stored.Leased(c.now) == o.Leased(c.now)
	if o.Leased(c.now) {
		same = same && stored.Holder == o.Holder && stored.Expires == o.Entry.Expires && (o.Holder.Reserves() || stored.Origin == o.Origin && stored.Token == o.Token)
	}
	if !same {
		c.t.Fatalf("the memory says %+v, notify %q, %+v, %v; it is %v, %+v, %q, %+v, %v. The last operations:\n%s",
			wants, notify, o.Entry, o.Waiters, err, got, told, stored, queued, strings.Join(c.log[max(0, len(c.log)-12):], "\n"))
	}
}

// stored reads what the tables have about a name.
func (c *comparison) stored(name string, until time.Duration) (e rule.Entry, queue rule.Waiters) {
	c.t.Helper()
	var holder []byte
	var expires, origin, token, register int64
	err := c.n.db.QueryRow(inSchema(`SELECT l.holder, l.expires, l.origin, l.token, c.register FROM fenlock.current AS c
		LEFT JOIN fenlock.leases AS l ON l.name = $1 WHERE c.stripe = $2`, c.n.schema), []byte(name), node.Stripe(name)).
		Scan(&holder, orZero(&expires), orZero(&origin), orZero(&token), &register)
	if err != nil {
		c.t.Fatal(err)
	}
	e = rule.Entry{Holder: node.Holder(holder), Expires: time.Duration(expires) * time.Millisecond, Origin: fence.Token(origin), Token: fence.Token(token), Register: fence.Token(register)}
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

// told returns who was notified since the last time.
func (c *comparison) told() (waiter string) {
	c.t.Helper()
	err := c.n.each(context.Background(), inSchema(`DELETE FROM fenlock.notices RETURNING waiter`, c.n.schema), nil, func(scan func(...any) error) error {
		var one []byte
		err := scan(&one)
		waiter += string(one)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return waiter
}

// orZero scans NULL as 0.
func orZero(to *int64) *nullable { return (*nullable)(to) }

type nullable int64

func (n *nullable) Scan(from any) error {
	value, _ := from.(int64)
	*n = nullable(value)
	return nil
}
