package valkeynode_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// exchange sends requests in one batch and waits for what comes of them.
func exchange(n *valkeynode.Node, requests []node.Request) []*call {
	all := make([]*call, len(requests))
	calls := make([]node.Call, len(requests))
	for i := range all {
		all[i] = &call{done: make(chan struct{})}
		calls[i] = all[i]
	}
	n.Exchange(10*time.Second, requests, calls)
	for _, c := range all {
		<-c.done
	}
	return all
}

// several returns requests about names with numbers, of a holder each.
func several(op node.Op, names int) (all []node.Request) {
	for i := range names {
		all = append(all, node.Request{Op: op, Name: fmt.Sprint(i), Holder: node.Holder(fmt.Sprintf("%032d:", i)),
			TTL: time.Minute, Token: fence.Token(100 + i)})
	}
	return all
}

// What is wrong with one name has no effect on those that travel with it.
func TestOneBadNameAmongSeveral(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		requests := several(node.Acquire, 7)
		requests[5].TTL = time.Hour
		server.Do("LPUSH", "fenlock:1", "no lease")
		server.Do("SET", "fenlock-line:fenlock:2", "no queue")
		server.Do("HSET", registersKey, fmt.Sprint(node.Stripe("3")), "no number")
		server.Do("SET", "fenlock:4", strings.Repeat("x", 2000))
		before := commandsOf(t, server)["evalsha"]
		for i, c := range exchange(n, requests) {
			good := i == 0 || i == 6
			if (c.err != nil) != (i == 1 || i == 2 || i == 3 || i == 5) || (c.answer.Status == node.Granted) != (good) ||
				good && c.answer.Register != requests[i].Token {
				t.Errorf("number %d: %+v, %v", i, c.answer, c.err)
			}
		}
		if sent := commandsOf(t, server)["evalsha"] - before; sent != 1 {
			t.Errorf("they were %d commands", sent)
		}
		// the list and the stranger's value are still there
		for i, want := range []string{"1", "1", "0", "0", "1", "0", "1"} {
			if there := server.Do("EXISTS", fmt.Sprint("fenlock:", i)); there != want {
				t.Errorf("EXISTS of number %d: %s", i, there)
			}
		}
		server.Do("LPUSH", "fenlock-line:fenlock:6", "no queue")
		// What begins like a lease without a holder's name, or with this one, is none.
		requests = several(node.Release, 7)
		for i, holder := range map[int]string{4: "", 5: "shared:"} {
			requests[i].Holder = node.Holder(holder)
			server.Do("SET", fmt.Sprint("fenlock:", i), holder+" 7")
		}
		for i, c := range exchange(n, requests) {
			if (c.err != nil) != (i == 1 || i == 6) || c.err == nil && (c.answer.Status == node.Granted) != (i == 0) {
				t.Errorf("the release of number %d: %+v, %v", i, c.answer, c.err)
			}
		}
	})
}

// Names that have one register get a number each, and it is the largest afterwards.
func TestSeveralNamesOfOneRegister(t *testing.T) {
	server, n := admitted(t, testserver.Kinds(t)[0], time.Minute)
	requests := several(node.Acquire, 4)
	for i, next := 0, 0; i < len(requests); next++ {
		if name := fmt.Sprint("name ", next); node.Stripe(name) == 1 {
			requests[i].Name, requests[i].Token = name, 50 // all propose the same
			i++
		}
	}
	for i, c := range exchange(n, requests) {
		if c.err != nil || c.answer.Register != fence.Token(50+i) {
			t.Errorf("number %d: %+v, %v", i, c.answer, c.err)
		}
	}
	if got := server.Do("HGET", registersKey, "1"); got != "53" {
		t.Errorf("the register is %s", got)
	}
}

// The reply to as many as there can be is read, however long what holds them is.
func TestSeveralNamesThatOthersHold(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		requests := several(node.Acquire, 64)
		for _, r := range requests {
			server.Do("SET", "fenlock:"+r.Name, strings.Repeat("x", 2000), "PX", "60000")
		}
		before := commandsOf(t, server)["evalsha"]
		for i, c := range exchange(n, requests) {
			if c.err != nil || c.answer.Status != node.Held || c.answer.Remaining <= 0 {
				t.Errorf("number %d: %+v, %v", i, c.answer, c.err)
			}
		}
		if sent := commandsOf(t, server)["evalsha"] - before; sent > 10 {
			t.Errorf("they were %d commands", sent)
		}
	})
}

// Releases that are sent together give, each with what its own request proposes, and those of one
// register one after the other; an acquire that is sent with them is promised more than they gave.
func TestSeveralReleasesGive(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		events := subscribed(t, n, "a")
		names := map[int][]string{} // of two registers
		for i := 0; len(names[1]) < 6 || len(names[2]) < 1; i++ {
			if name := fmt.Sprint("name ", i); node.Stripe(name) <= 2 {
				names[node.Stripe(name)] = append(names[node.Stripe(name)], name)
			}
		}
		const proposed = 1_000_000

		held := []string{names[1][0], names[2][0], names[1][1], names[1][2], "free"}
		releases, acquires := several(node.Release, 5), several(node.Acquire, 5)
		for i, name := range held {
			releases[i].Name, releases[i].Next, acquires[i].Name, acquires[i].Token = name, fence.Token(proposed+i), name, 1
		}
		releases[3].Next = 0
		exchange(n, acquires)
		waiters := map[string]int{}
		for i := range 4 {
			waiter := fmt.Sprintf("%s:%d", clientName(0), i+1)
			waiters[waiter] = i
			server.Do("ZADD", "fenlock-line:fenlock:"+held[i], "1", waiter)
		}
		after := several(node.Acquire, 3)
		for i := range after {
			after[i].Name, after[i].Token = names[1][3+i], 1
		}
		before := commandsOf(t, server)["evalsha"]
		all := exchange(n, append(after, releases...))
		if sent := commandsOf(t, server)["evalsha"] - before; sent != 2 {
			t.Errorf("they were %d commands", sent)
		}
		want := []fence.Token{proposed, proposed + 1, proposed + 2, 0}
		more := fence.Token(proposed + 3)
		for i, c := range all {
			if c.err != nil || c.answer.Status != node.Granted || i < 3 && c.answer.Register != more+fence.Token(i) {
				t.Errorf("number %d: %+v, %v", i, c.answer, c.err)
			}
		}
		for range len(held) - 1 {
			said := next(t, events)
			told, ok := node.ParseNotice(said)
			i, there := waiters[told.Waiter]
			if !ok || !there || told.Number != want[i] {
				t.Errorf("%q was told; want %v", said, want)
			}
			delete(waiters, told.Waiter)
		}
		for stripe, want := range map[string]string{"1": (more + 2).String(), "2": fence.Token(proposed + 1).String()} {
			if got := server.Do("HGET", registersKey, stripe); got != want {
				t.Errorf("register %s is %s; want %s", stripe, got, want)
			}
		}
	})
}

// Each of them looks at the server by itself: one that may not vote promises no number, and
// reserves the name.
func TestSeveralReleasesWhereNothingMayBeGiven(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		events := subscribed(t, n, "a")
		exchange(n, several(node.Acquire, 3))
		releases := several(node.Release, 3)
		for i := range releases {
			releases[i].Next = 1_000_000
			server.Do("ZADD", fmt.Sprint("fenlock-line:fenlock:", i), "1", fmt.Sprintf("%s:%d", clientName(0), i+1))
		}
		server.Do("HSET", registersKey, "admitted", strings.Repeat("0", 40))
		before, registers := commandsOf(t, server)["evalsha"], server.Do("HGETALL", registersKey)
		for i, c := range exchange(n, releases) {
			want, told := fmt.Sprintf("%s:%d", clientName(0), i+1), next(t, events)
			if c.err != nil || c.answer.Status != node.Granted || told != want {
				t.Errorf("number %d: %+v, %v, %q was told; want %q", i, c.answer, c.err, told, want)
			}
		}
		if sent := commandsOf(t, server)["evalsha"] - before; sent != 1 || server.Do("HGETALL", registersKey) != registers {
			t.Errorf("they were %d commands, and the registers are %s", sent, server.Do("HGETALL", registersKey))
		}
	})
}

// A waiter counts what it finds leased to it. That is there only if the register has the number,
// whatever the server refuses in the middle.
func TestNothingIsGivenWithoutItsNumber(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		subscribed(t, n, "a")
		for _, denied := range []string{"set", "hset", "publish"} {
			held := granted(t, n, denied)
			waiter := node.Place{Waiter: clientName(0) + ":1", Stamp: 1}
			server.Do("ZADD", "fenlock-line:fenlock:"+denied, "1", waiter.Waiter)
			release := as(node.Release, held)
			release.Next = 1_000_000
			server.Do("ACL", "SETUSER", "default", "-"+denied)
			if a, err := n.Do(bounded(t), release); err == nil {
				t.Errorf("without %s: %+v", denied, a)
			}
			server.Do("ACL", "SETUSER", "default", "+"+denied)
			asks := long(denied, "waits")
			asks.Place = waiter
			a, err := n.Do(bounded(t), as(node.Acquire, asks))
			if register := server.Do("HGET", registersKey, fmt.Sprint(node.Stripe(denied))); err != nil ||
				a.Given != 0 && a.Given.String() != register {
				t.Errorf("without %s, %v was given, and the register is %s (%v)", denied, a.Given, register, err)
			}
		}
	})
}

// Extends that are sent together come to what each would by itself, whatever it finds, also on a
// full server. That is checked of their answers, and of what is there afterwards. Those of leases
// that the holder has not got come first.
func TestSeveralExtendsAreAsOne(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		var servers [2]*testserver.Server // of those together, and of each by itself
		var nodes [2]*valkeynode.Node
		for i := range servers {
			servers[i] = testserver.Start(t, kind)
			servers[i].MarkAdmitted("fenlock:", time.Minute)
			nodes[i] = joined(t, servers[i].URL(), time.Minute)
			exchange(nodes[i], several(node.Release, 3)) // the connection is there
		}
		names := make([]string, 20)
		for i := range names {
			names[i] = fmt.Sprint("name ", i)
		}
		for i, next := 10, 0; i < len(names); next++ { // half of them have one register
			if names[i] = fmt.Sprint("other ", next); node.Stripe(names[i]) == 1 {
				i++
			}
		}
		holder := func(i int) string { return fmt.Sprintf("%032d@%d:me", i, i) }
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		number := func() string { return fmt.Sprint(random.IntN(20)) }
		one := func(all ...string) string { return all[random.IntN(len(all))] }
		before, sent := commandsOf(t, servers[0])["evalsha"], 0
		seen := map[node.Status]int{}
		for round := range 100 {
			requests := make([]node.Request, 3+random.IntN(10)) // one command carries them out
			order := random.Perm(len(names))
			var first, second []int
			for i := range requests {
				name := names[order[i]]
				r := node.Request{Op: node.Extend, Name: name, Holder: node.Holder(holder(i)), TTL: 30 * time.Second,
					Token: fence.Token(random.IntN(20))}
				if random.IntN(3) > 0 {
					r.OwnToken = fence.Token(random.IntN(3))
				}
				if random.IntN(9) == 0 {
					r.TTL = time.Hour
				}
				requests[i] = r
				value := one("", holder(i)+" "+number()+"/1", holder(i)+" "+number()+"/2", holder(i)+" "+number(),
					holder(i)+" "+number()+"/", holder(i)+" x",
					holder(i)+" 12345678901234567/1", holder(i+1)+" "+number()+"/1", "next:"+number(), "shared:"+number()+"\n",
					"shared:1\n1 1 99999999999999 "+holder(i), "LIST")
				if strings.HasPrefix(value, holder(i)+" ") || value == "LIST" {
					second = append(second, i)
				} else {
					first = append(first, i)
				}
				register := one("", number(), number(), number(), "x", "123456789012345678")
				for _, server := range servers {
					server.Do("DEL", "fenlock:"+name)
					switch value {
					case "":
					case "LIST":
						server.Do("LPUSH", "fenlock:"+name, "no lease")
					default:
						server.Do("SET", "fenlock:"+name, value, "PX", "10000")
					}
					if stripe := fmt.Sprint(node.Stripe(name)); register == "" {
						server.Do("HDEL", registersKey, stripe)
					} else {
						server.Do("HSET", registersKey, stripe, register)
					}
				}
			}
			room := random.IntN(3) > 0
			for _, server := range servers {
				full(server, !room)
			}
			together := exchange(nodes[0], requests)
			for _, i := range append(first, second...) {
				r := requests[i]
				single := exchange(nodes[1], []node.Request{r})[0]
				got, want := fmt.Sprint(together[i].answer, together[i].err), fmt.Sprint(single.answer, single.err)
				want, _, where := strings.Cut(want, " script: ") // it went wrong
				if got = strings.ReplaceAll(got, servers[0].Addr(), servers[1].Addr()); got != want &&
					!(where && strings.HasPrefix(got, want)) {
					t.Fatalf("seed %d, round %d, room %v: number %d of %d, %+v: %s; by itself %s", seed, round, room, i, len(requests),
						r, got, want)
				}
				if single.err != nil {
					seen[0]++
				} else {
					seen[single.answer.Status]++
				}
			}
			for _, server := range servers {
				full(server, false)
			}
			sent += len(requests)
			after := func(server *testserver.Server, name string) string {
				left, _ := strconv.Atoi(server.Do("PTTL", "fenlock:"+name))
				return fmt.Sprintf("%q, renewed: %v, and its register %s", server.Do("GET", "fenlock:"+name), left > 20_000,
					server.Do("HGET", registersKey, fmt.Sprint(node.Stripe(name))))
			}
			for _, name := range names {
				if got, want := after(servers[0], name), after(servers[1], name); got != want {
					t.Fatalf("seed %d, round %d: %q is %s afterwards; by itself %s", seed, round, name, got, want)
				}
			}
		}
		if seen[node.Granted] < 20 || seen[node.Lost] < 20 || seen[0] < 20 {
			t.Errorf("of %d they were %v", sent, seen)
		}
		if got := commandsOf(t, servers[0])["evalsha"] - before; got > sent/3 {
			t.Errorf("%d extends were %d commands", sent, got)
		}
	})
}

// A server that may not vote refuses extends that are sent together. A lease that cannot be made
// longer is not said to be: what the server refuses in the middle of a script is no answer.
func TestSeveralExtendsThatAreRefused(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		extends := several(node.Extend, 3)
		for i, r := range extends { // so that there is nothing to change but the time
			server.Do("SET", "fenlock:"+r.Name, string(r.Holder)+" 7/7", "PX", "30000")
			server.Do("HSET", registersKey, fmt.Sprint(node.Stripe(r.Name)), "200")
			extends[i].OwnToken = 7
		}
		for _, c := range []struct{ refuse, allow []string }{
			{[]string{"ACL", "SETUSER", "default", "-pexpire"}, []string{"ACL", "SETUSER", "default", "+pexpire"}},
			{[]string{"HSET", registersKey, "format", "4"}, []string{"HSET", registersKey, "format", "3"}},
		} {
			server.Do(c.refuse...)
			for i, call := range exchange(n, extends) {
				if call.err == nil {
					t.Errorf("%q, number %d: %+v", c.refuse, i, call.answer)
				}
			}
			server.Do(c.allow...)
			for _, r := range extends {
				if left, err := strconv.Atoi(server.Do("PTTL", "fenlock:"+r.Name)); err != nil || left > 30_000 {
					t.Errorf("%q: number %s lasts for %d ms, %v", c.refuse, r.Name, left, err)
				}
			}
		}
		for i, call := range exchange(n, extends) {
			if call.err != nil || call.answer.Status != node.Granted || call.answer.Register != 7 {
				t.Errorf("number %d: %+v, %v", i, call.answer, call.err)
			}
		}
	})
}
