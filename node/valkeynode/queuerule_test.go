package valkeynode_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// The scripts do what package rule does, in any order of requests about one name. That is checked
// of all operations, all fields of the answers, and all that is left on the server. It is so alone,
// where some share the name, and where one command carries several requests out. A monitor, which
// subscribes to every channel, is not taken for a waiter. Scripts that are gone are loaded again,
// by whatever comes next.
func TestScriptsFollowTheRules(t *testing.T) {
	for _, mode := range []struct {
		name              string
		sharing, together bool
		steps             int
		seen              []string // what must have happened
	}{
		{"alone", false, false, 500, []string{"given"}},
		{"shared", true, false, 1000, []string{
			"acquire, shared true: granted, told 0", "acquire, shared true: granted, told 1",
			"acquire, shared true: held, told 0", "acquire, shared true: held, told 1",
			"acquire, shared false: granted, told 0", "acquire, shared false: held, told 0",
			"extend, shared true: granted, told 0", "extend, shared true: lost, told 0",
			"release, shared false: granted, told 0", "release, shared false: granted, told 1",
			"release, shared false: lost, told 1", "confirm, shared false: granted, told 0",
			"one of several has ended", "several"}},
		{"together", false, true, 600, []string{
			"together, acquire: granted, told 0", "together, acquire: held, told 0", "together, acquire: held, told 1",
			"together, release: granted, told 0", "together, release: granted, told 1", "together, release: lost, told 0",
			"together, given"}},
		{"shared and together", true, true, 600, nil},
	} {
		t.Run(mode.name, func(t *testing.T) {
			each(t, func(t *testing.T, kind testserver.Kind) {
				c := newComparison(t, kind)
				c.sharing, c.together = mode.sharing, mode.together
				for c.step = range mode.steps {
					c.once()
				}
				for _, often := range mode.seen {
					if c.seen[often] == 0 {
						t.Errorf("seed %d: never seen: %s; there were %v", c.seed, often, c.seen)
					}
				}
			})
		})
	}
}

// flushes is for how long the scripts are flushed now and then. After that a server may be out, and
// one that is out is not given them again.
const flushes = 100

// once lets one thing happen.
func (c *comparison) once() {
	of := func(n int) bool { return c.random.IntN(n) == 0 }
	switch n := c.random.IntN(20); {
	case c.step == 0, c.step == flushes: // so that the scripts are there from here on
		c.serve(c.request())
	case n == 0 && c.step < flushes && !c.together:
		c.server.Do("SCRIPT", "FLUSH")
	case n == 0 && (c.store.Out || of(8) || !c.sharing && !c.together):
		c.toggleOut()
	case n == 1 && (!c.sharing || of(3)):
		c.lapse(theKey)
	case c.together && (n == 2 || n == 4):
		c.lapse(queueKey)
		c.lapse(theKey)
	case n == 2 && of(3):
		c.lapse(queueKey)
	case n == 3:
		c.enqueue(c.place(c.sharing && !of(3)))
	case n == 4 && c.sharing:
		c.lapseOne()
	default:
		c.serve(c.request())
	}
}

const (
	theName = "orders"
	theKey  = "fenlock:orders"
)

// comparison plays the same history on a server and by the rules. The rules' time stands still, and
// so does the server's as far as can be. Before each operation, what is there gets a time to live
// that is longer than the test. After it, what has been given another one shows how long that is.
type comparison struct {
	t      *testing.T
	server *testserver.Server
	nodes  []*valkeynode.Node
	events []chan string // of the clients a and b; no listener for c
	random *rand.Rand
	seed   uint64

	store rule.Store
	step  int
	what  string

	together bool           // some requests are sent with others
	sharing  bool           // some want to share the name
	seen     map[string]int // what happened
	frozen   int64          // when those who share it end, in ms of the server's clock
}

// ages is longer than the test.
const ages = time.Hour

func newComparison(t *testing.T, kind testserver.Kind) *comparison {
	t.Helper()
	c := &comparison{t: t, server: testserver.Start(t, kind), seed: rand.Uint64(), seen: map[string]int{}}
	c.random = rand.New(rand.NewPCG(c.seed, 0))
	c.server.MarkAdmitted("fenlock:", ages)
	send(t, c.server, "PSUBSCRIBE", "*")
	eventually(t, func() error {
		if n := c.server.Do("PUBSUB", "NUMPAT"); n != "1" {
			return errors.New(n + " patterns")
		}
		return nil
	})
	for i := range 2 {
		n := joined(t, c.server.URL(), ages)
		events := subscribed(t, n, "abc"[i:i+1])
		c.nodes, c.events = append(c.nodes, n), append(c.events, events)
	}
	return c
}

func clientName(i int) string { return strings.Repeat("abc"[i:i+1], 32) }

func (c *comparison) fail(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d, step %d, %s: %s", c.seed, c.step, c.what, fmt.Sprintf(format, args...))
}

// request is of few holders and waiters, with few numbers, so that all of them meet.
func (c *comparison) request() node.Request {
	ops := []node.Op{node.Acquire, node.Acquire, node.Acquire, node.Acquire, node.Release, node.Release, node.Release,
		node.Confirm, node.Extend, node.ForceRelease}
	if c.sharing {
		ops = []node.Op{node.Acquire, node.Acquire, node.Acquire, node.Acquire, node.Release, node.Release, node.Confirm,
			node.Extend, node.Extend}
	}
	if c.sharing && c.random.IntN(30) == 0 {
		ops = []node.Op{node.ForceRelease}
	}
	near := int64(c.store.Registers[node.Stripe(theName)]) + c.random.Int64N(8) - 4
	r := node.Request{Op: ops[c.random.IntN(len(ops))], Name: theName, Token: fence.Token(max(0, near)),
		TTL: time.Minute + time.Duration(c.random.Int64N(int64(time.Minute)))}
	r.Holder = node.Holder([]string{strings.Repeat("1", 32) + ":one", strings.Repeat("2", 32) + ":two",
		"another program's", strings.Repeat("3", 32) + "@1/3:x/4:", strings.Repeat("4", 32) + "@1/4:",
		strings.Repeat("5", 32) + "@99/4:"}[c.random.IntN(6)])
	// A release of what is held, by an exclusive holder that waits for nothing, comes more often
	// than by chance.
	if holder := c.store.Leases[theName].Holder; c.together && holder != "" && !holder.Shared() && !holder.Reserves() {
		switch waiting := len(c.store.Queues[theName].Waiters) > 0; {
		case waiting && c.random.IntN(2) == 0:
			return node.Request{Op: node.Release, Name: theName, Holder: holder, Next: fence.Token(max(0, near))}
		case r.Op == node.Release && c.random.IntN(2) == 0:
			r.Holder = holder
		}
	}
	if r.Op == node.Confirm {
		r.Token = max(1, r.Token) // 0 is no token, and no register that was never moved
	}
	if r.Op == node.Extend && c.random.IntN(2) == 0 {
		r.OwnToken = fence.Token(1 + c.random.IntN(3))
	}
	if r.Op == node.Release && c.random.IntN(4) == 0 {
		r.Holder = ""
	}
	if r.Op == node.Release && c.random.IntN(3) > 0 {
		r.Next = fence.Token(max(1, near))
	}
	shares := c.sharing && c.random.IntN(3) > 0
	r.Shared = shares && (r.Op == node.Acquire || r.Op == node.Extend)
	if c.random.IntN(6) > 0 && !(c.together && c.random.IntN(3) > 0) {
		r.Place = c.place(shares)
	}
	// What was given is given back, and extended; and sometimes its waiter only leaves.
	h := c.store.Leases[theName].Holder
	if (r.Op == node.Release || strings.Contains(string(h), "#")) && !h.Shared() && !h.Reserves() && h != "" &&
		c.random.IntN(2) == 0 {
		r.Holder = h
		if r.Op == node.Release && c.random.IntN(3) == 0 && r.Place.Waiter != "" {
			r.Holder = node.Given(r.Place.Waiter, 0)
		}
	}
	// A waiter that was notified comes more often than by chance.
	if called := reservations.FindAllStringSubmatch(string(c.store.Leases[theName].Holder), -1); c.sharing &&
		len(called) > 0 && c.random.IntN(2) == 0 {
		r.Place.Waiter = called[c.random.IntN(len(called))][1]
		r.Shared = r.Op == node.Acquire && strings.Contains(r.Place.Waiter, ":0")
	}
	return r
}

func (c *comparison) place(shares bool) node.Place {
	stamps := []int64{0, 1, 2, 3, 1<<53 - 1, 1 << 53}
	number := 1 + c.random.IntN(3)
	kind := ""
	if shares {
		kind, number = "0", c.random.IntN(2)
	}
	return node.Place{Waiter: fmt.Sprintf("%s:%s%d%s", clientName(c.random.IntN(3)), kind, number,
		[]string{"", ":x"}[c.random.IntN(2)]), Stamp: stamps[c.random.IntN(len(stamps))]}
}

// enqueue puts a waiter into the queue by hand, even one that is notified. A waiter that is granted
// the name is in no queue, however it came to be in one.
func (c *comparison) enqueue(p node.Place) {
	c.what = fmt.Sprintf("to enqueue %+v", p)
	o := c.store.Begin(theName, 0, nil)
	if _, in := o.Ahead(p.Waiter); !in {
		o.Insert(p)
		o.Commit()
	}
	c.server.Do("ZADD", queueKey, "NX", fmt.Sprint(p.Stamp), p.Waiter)
	c.freeze()
	c.compare()
}

// serve carries out a request in both ways.
func (c *comparison) serve(r node.Request) {
	c.what = fmt.Sprintf("%v of %q by %+v, token %d, next %d, shared %v", r.Op, string(r.Holder), r.Place, r.Token, r.Next,
		r.Shared)
	began := time.Now()
	c.freeze()
	before := c.clock()
	grouped := c.together && r.Place.Waiter == "" && (r.Op == node.Acquire && !r.Shared || r.Op == node.Release)
	got, err := c.send(r, grouped)
	if err != nil {
		c.fail("%v", err)
	}
	left, queueLeft := c.timeToLive(theKey), c.timeToLive(queueKey)
	value := c.server.Do("GET", theKey)
	most, after := time.Since(began)+2*time.Millisecond, c.clock() // the server counts whole milliseconds

	o := c.store.Begin(theName, 0, func(waiter string) bool { return waiter[0] != 'c' })
	want, notify := rule.ServeShared(&o.Entry, o, 0, r)
	renewed := o.QueueExpires != ages
	o.Commit()
	c.freeze()
	c.seen[fmt.Sprintf("%v, shared %v: %v, told %d", r.Op, r.Shared, want.Status, len(notify))]++
	if grouped {
		c.seen[fmt.Sprintf("together, %v: %v, told %d", r.Op, want.Status, len(notify))]++
	}
	if spent := time.Since(began); spent > rule.ReservationTTL/2 &&
		(strings.Contains(string(o.Holder), string(node.Reserved(""))) || strings.Contains(string(o.Holder), "#")) {
		c.t.Logf("REDUCED: step %d took %v, in which a reservation can end", c.step, spent)
		for _, waiter := range notify {
			next(c.t, c.events[waiter[0]-'a'])
		}
		c.lapse(theKey)
		return
	}

	if want.Status == node.Held && (got.Clock < before || got.Clock > after) {
		c.fail("the clock is %v; want it between %v and %v", got.Clock, before, after)
	}
	if got.Remaining > want.Remaining || got.Remaining < want.Remaining-most {
		c.fail("%v remain; want %v", got.Remaining, want.Remaining)
	}
	got.Clock, got.Remaining, got.Absence, got.Detail = want.Clock, want.Remaining, node.Absence{}, ""
	if got != want {
		c.fail("%+v; want %+v", got, want)
	}
	for _, said := range notify {
		event := next(c.t, c.events[said[0]-'a'])
		told, ok := node.ParseNotice(event)
		wants, _ := node.ParseNotice(said)
		if told.Number > 0 {
			c.seen["given"]++
			if grouped {
				c.seen["together, given"]++
			}
			if told.Clock < before || told.Clock > after {
				c.fail("the clock is %v; want it between %v and %v", told.Clock, before, after)
			}
			told.Clock = wants.Clock
		}
		if wants.Waiter = unlabelled(wants.Waiter); !ok || told != wants {
			c.fail("%q was told; want %q", event, said)
		}
	}
	c.compare()
	c.compareEnds(value, string(o.Holder), before, after)
	if o.Leased(0) && (left > o.Entry.Expires || left < o.Entry.Expires-most) {
		c.fail("the lease has %v left; want %v", left, o.Entry.Expires)
	}
	expiry := ages
	if renewed {
		expiry = rule.QueueExpiry
	}
	if len(o.Waiters) > 0 && (queueLeft > expiry || queueLeft < expiry-most) {
		c.fail("the queue has %v left; want %v", queueLeft, expiry)
	}
	for i, events := range c.events {
		if len(events) > 0 {
			c.fail("client %d: %q was notified as well", i, <-events)
		}
	}
}

// send sends a request: by itself, or among others of its kind, which change nothing.
func (c *comparison) send(r node.Request, grouped bool) (node.Answer, error) {
	n := c.nodes[c.random.IntN(2)]
	// a server that is out has to ask each acquire by itself, once more
	if !grouped || c.store.Out && r.Op != node.Release {
		return n.Do(bounded(c.t), r)
	}
	requests, mine := []node.Request{r}, c.random.IntN(4)
	for i := range 3 {
		requests = append(requests, node.Request{Op: r.Op, Name: fmt.Sprint("another ", i), Holder: "0:", TTL: 2 * ages,
			Token: 1})
		if r.Op == node.Release {
			requests[i+1].Next = fence.Token(i)
		}
	}
	requests[0], requests[mine] = requests[mine], requests[0]
	all := exchange(n, requests)
	for i := range all {
		if tooLong := errors.Is(all[i].err, node.ErrMisconfigured); i != mine && tooLong != (r.Op == node.Acquire) {
			c.fail("another one was answered %+v, %v", all[i].answer, all[i].err)
		}
	}
	return all[mine].answer, all[mine].err
}

// freeze has nothing end for as long as the test may take.
func (c *comparison) freeze() {
	for _, key := range []string{theKey, queueKey} {
		c.server.Do("PEXPIRE", key, fmt.Sprint(ages.Milliseconds()))
	}
	if value := c.server.Do("GET", theKey); node.Holder(value).Shared() {
		c.frozen = (c.clock() + ages).Milliseconds()
		c.server.Do("SET", theKey, theirEnds.ReplaceAllString(value, fmt.Sprintf("\n%d ", c.frozen)), "PX",
			fmt.Sprint(ages.Milliseconds()))
	}
	if l, ok := c.store.Leases[theName]; ok {
		l.Expires = ages
		l.Holder = node.Holder(theirEnds.ReplaceAllString(string(l.Holder), fmt.Sprintf("\n%d ", ages)))
		c.store.Leases[theName] = l
	}
	if q, ok := c.store.Queues[theName]; ok {
		q.Expires = ages
		c.store.Queues[theName] = q
	}
}

// lapse has the server end a lease or a queue, by its own clock.
func (c *comparison) lapse(key string) {
	c.what = "the end of " + key
	c.server.Do("PEXPIRE", key, "1")
	eventually(c.t, func() error {
		if n := c.server.Do("EXISTS", key); n != "0" {
			return fmt.Errorf("%s is still there", key)
		}
		return nil
	})
	if key == theKey {
		delete(c.store.Leases, theName)
	} else {
		delete(c.store.Queues, theName)
	}
	c.compare()
}

// reservations are the waiters for whom a name, or a share of it, is reserved.
var reservations = regexp.MustCompile("next:([^\n]+)")

// theirEnds are those of several who share a name, but for one whose time is over: 1.
var theirEnds = regexp.MustCompile(`\n\d\d+ `)

// lapseOne has one of several end. A holder is left, as the lease of them all is there.
func (c *comparison) lapseOne() {
	c.what = "the end of one of several"
	l := c.store.Leases[theName]
	ends := theirEnds.FindAllStringIndex(string(l.Holder), -1)
	if len(ends) < 2 {
		return
	}
	c.seen["one of several has ended"]++
	one := c.random.IntN(len(ends))
	lapsed := func(value string) string {
		at := theirEnds.FindAllStringIndex(value, -1)[one]
		return value[:at[0]] + "\n1 " + value[at[1]:]
	}
	c.server.Do("SET", theKey, lapsed(c.server.Do("GET", theKey)), "KEEPTTL")
	l.Holder = node.Holder(strings.Replace(lapsed(string(l.Holder)), "\n1 ", "\n0 ", 1))
	c.store.Leases[theName] = l
	c.compare()
}

// compareEnds compares when those end who share the name: what has just been written, on the
// server at a time between two.
func (c *comparison) compareEnds(got, want string, before, after time.Duration) {
	if !node.Holder(want).Shared() {
		return
	}
	c.seen["several"]++
	ends, wanted := theirEnds.FindAllString(got, -1), theirEnds.FindAllString(want, -1)
	if len(ends) != len(wanted) {
		c.fail("the lease was %q; want %q", got, want)
	}
	for i := range ends {
		end, _ := strconv.ParseInt(strings.TrimSpace(ends[i]), 10, 64)
		ns, _ := strconv.ParseInt(strings.TrimSpace(wanted[i]), 10, 64)
		left := time.Duration(ns)
		if left != ages && (end < (before+left).Milliseconds() || end > (after+left).Milliseconds()) {
			c.fail("number %d ends at %d; want %v after %v to %v", i, end, left, before, after)
		}
	}
}

// toggleOut has the server not be admitted any more, or again.
func (c *comparison) toggleOut() {
	c.what = "admission"
	mark := replID(c.t, c.server)
	if c.store.Out = !c.store.Out; c.store.Out {
		mark = strings.Repeat("0", len(mark))
	}
	c.server.Do("HSET", registersKey, "admitted", mark)
}

// compare compares what is stored.
func (c *comparison) compare() {
	c.t.Helper()
	lease := c.store.Leases[theName]
	value := string(lease.Holder)
	stored := c.server.Do("GET", theKey)
	if lease.Holder.Shared() {
		value = strings.ReplaceAll(value, fmt.Sprintf("\n%d ", ages), fmt.Sprintf("\n%d ", c.frozen))
		value = strings.ReplaceAll(value, "\n0 ", "\n1 ")
	} else if value != "" && !lease.Holder.Reserves() {
		value += " " + lease.Origin.String()
		if lease.Token > 0 {
			value += "/" + lease.Token.String()
		}
	}
	c.same("the lease", stored, orNil(value))
	var words []string
	for _, p := range c.store.Queues[theName].Waiters {
		words = append(words, fmt.Sprintf("%s %d", p.Waiter, p.Stamp))
	}
	c.same("the queue", c.server.Do("ZRANGE", queueKey, "0", "-1", "WITHSCORES"), "["+strings.Join(words, " ")+"]")
	register := ""
	if token := c.store.Registers[node.Stripe(theName)]; token > 0 {
		register = token.String()
	}
	keys := []string{registersKey} // and nothing is left of what has ended
	if c.store.Leases[theName].Holder != "" {
		keys = append(keys, theKey)
	}
	if len(words) > 0 {
		keys = append(keys, queueKey)
	}
	found := strings.Fields(strings.Trim(c.server.Do("KEYS", "*"), "[]"))
	slices.Sort(keys)
	slices.Sort(found)
	c.same("all there is", fmt.Sprint(found), fmt.Sprint(keys))
	c.same("the register", c.server.Do("HGET", registersKey, strconv.Itoa(node.Stripe(theName))), orNil(register))
}

// unlabelled is a waiter as it is told: without its label.
func unlabelled(waiter string) string { return strings.TrimSuffix(waiter, ":x") }

func orNil(s string) string {
	if s == "" {
		return "(nil)"
	}
	return s
}

func (c *comparison) same(what, got, want string) {
	c.t.Helper()
	if got != want {
		c.fail("%s is %s; want %s", what, got, want)
	}
}

// clock is the server's.
func (c *comparison) clock() time.Duration {
	var seconds, micros int64
	fmt.Sscanf(c.server.Do("TIME"), "[%d %d]", &seconds, &micros)
	return time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond
}

func (c *comparison) timeToLive(key string) time.Duration {
	ms, err := strconv.ParseInt(c.server.Do("PTTL", key), 10, 64)
	if err != nil {
		c.fail("%v", err)
	}
	return time.Duration(ms) * time.Millisecond
}
